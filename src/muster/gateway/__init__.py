"""The gateway: one way through the hub to the API of every managed cluster, `clustergateways/<name>/proxy`."""
