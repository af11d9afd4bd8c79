"""The local fleet: a hub and its managed clusters on this machine, for `muster up`.

`directory.py` is what the fleet should be and who runs it, `fleet.py` makes it so by the steps of `membership.py`, `status.py` is
how far it is. `cloud.py` is the AWS of a fleet that registers by that.
"""
