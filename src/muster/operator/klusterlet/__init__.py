"""The Klusterlet operator: makes a cluster, its own or another one, a managed cluster."""
