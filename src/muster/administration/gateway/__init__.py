"""What an administrator does by the hub's gateway: kubeconfigs, one command on many clusters, health, and who may do what where."""
