"""Operators: a ClusterManager makes a cluster a hub, a Klusterlet makes it a managed one; both take everything away again."""
