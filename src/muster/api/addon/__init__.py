"""addon.open-cluster-management.io: addons, on the hub and on managed clusters."""
