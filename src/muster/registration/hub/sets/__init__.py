"""Cluster sets: who is in them, which namespaces have them bound, and which namespaces they give their clusters."""
