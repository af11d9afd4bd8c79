"""HTTP libraries' own ways to put something between a client and the network, which lead requests for the hub to a cluster.

Each wraps another transport of the library and gives it a copy of the request: the caller's request is never changed, so a retry
above starts from the same address again.
"""
