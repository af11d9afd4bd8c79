"""proxy.open-cluster-management.io: ways from the hub to managed clusters."""
