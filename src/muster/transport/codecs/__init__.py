"""Conversion between objects and events, on both sides: plain objects, works, and resync requests.

OCM 1.2 and 1.3 can read what is written here, and what either writes can be read here.
"""
