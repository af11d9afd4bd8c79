"""How a cluster becomes a managed one: the hub's controllers, the agent, and the drivers that prove who an agent is.

`hub/` runs beside the hub's API server, `agent/` beside each managed one; neither knows the other, they meet in ManagedCluster,
Lease and whatever a driver uses. `drivers/` holds the ways to get a credential for the hub behind two small Protocols
(`drivers/interfaces.py`). `names.py` has every name that goes over the wire; all of them are OCM's.
"""
