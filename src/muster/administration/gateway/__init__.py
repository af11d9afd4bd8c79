"""Administration of the hub's gateway: kubeconfigs, one command on many clusters, health, and permissions."""
