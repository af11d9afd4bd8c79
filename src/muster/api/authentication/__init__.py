"""authentication.open-cluster-management.io: service accounts of managed clusters, usable from the hub."""
