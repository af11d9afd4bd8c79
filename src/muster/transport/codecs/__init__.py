"""Objects as events and events as objects, at both ends: plain objects, works, and what is asked for by resync.

What is written can be read by OCM 1.2 and 1.3, and what either writes can be read here.
"""
