"""Registration of managed clusters: the hub's controllers, the agent, and the drivers by which agents authenticate.

`hub/` runs on the hub, `agent/` on each managed cluster; neither imports the other, they communicate by ManagedCluster, Lease and
the objects of a driver. `drivers/` has the registration drivers, which get an agent's credential for the hub, behind two small
Protocols (`drivers/interfaces.py`). `names.py` has every name of the wire protocol; all of them are OCM's.
"""
