"""work.open-cluster-management.io: manifests that the hub gives to managed clusters."""
