"""The operator that makes a cluster a hub, as a ClusterManager says."""
