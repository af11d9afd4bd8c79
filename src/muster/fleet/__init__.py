"""Fleets on one machine: hubs and managed clusters on embedded control planes, with the very components that run on real ones.

`simulation.py` is `muster sim`: many managed clusters with their agents on one hub, measured. Nothing here knows how registration
works; it starts hubs and agents and looks at what the hub's API says.
"""
