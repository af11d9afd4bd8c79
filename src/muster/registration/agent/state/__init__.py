"""The state of an agent: its Secrets, the hubs of its bootstrap kubeconfigs, and its identity."""
