"""Fleets on one machine: hubs and managed clusters on embedded control planes, with the very components that run on real ones.

`local/` is `muster up`: a hub and a few managed clusters, made and kept as an administrator would. `simulation.py` is `muster sim`:
many managed clusters with their agents on one hub, measured. `node/` and `workloads/` run pods and Deployments, of embedded
clusters (`embedded.py`) and of others (`followed.py`; `muster node`). Nothing here knows how registration works; it starts hubs
and agents and looks at what the hub's API says.
"""
