"""The ClusterManager operator: installs a hub."""
