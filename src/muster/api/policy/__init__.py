"""policy.open-cluster-management.io: what must be true on managed clusters."""
