"""The cluster gateway: serves the API of every managed cluster through the hub, at `clustergateways/<name>/proxy`."""
