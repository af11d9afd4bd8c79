"""Adapters for HTTP libraries that send requests for the hub to a cluster.

Each wraps another transport of the library and passes a copy of the request to it: the caller's request is never changed, so a
retry above starts from the original address.
"""
