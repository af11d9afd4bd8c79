"""Clusters that join a hub, are accepted there, and leave it."""
