"""Clusters that join a hub, are let in there, and leave it."""
