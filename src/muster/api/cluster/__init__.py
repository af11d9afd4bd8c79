"""cluster.open-cluster-management.io: managed clusters, sets of them, and placements that choose among them."""
