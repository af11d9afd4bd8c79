"""The Klusterlet operator: a Klusterlet makes a cluster, the one it lives on or another one, a managed cluster."""
