"""Operators: a ClusterManager makes a cluster a hub, a Klusterlet makes it a managed cluster; both remove all of it again."""
