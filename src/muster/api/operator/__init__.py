"""operator.open-cluster-management.io: how hub and managed clusters are set up."""
