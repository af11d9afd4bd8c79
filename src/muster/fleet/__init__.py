"""Fleets on one machine: hubs and managed clusters on embedded control planes, with the same components as on real clusters.

`local/` is `muster up`: a hub and a few managed clusters, created and maintained as an administrator would. `simulation.py` is
`muster sim`: many managed clusters with their agents on one hub, measured. `node/` and `workloads/` run pods and Deployments, of
embedded clusters (`embedded.py`) and of others (`followed.py`; `muster node`). Nothing here implements registration; the fleet
starts hubs and agents and reads the hub's API.
"""
