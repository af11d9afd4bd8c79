"""Reports of the agent to its hub: the lease, and the status of the ManagedCluster."""
