"""clusteradm from end to end: every command on a hub and a managed cluster, on both control planes."""
