"""The local fleet: a hub and its managed clusters on this machine, for `muster up`.

`directory.py` has the desired state of the fleet and the process that runs it, `fleet.py` reconciles it by the steps of
`membership.py`, `status.py` reports the progress. `cloud.py` is the simulated AWS of a fleet that registers with AWS identities.
"""
