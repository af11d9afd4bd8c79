"""Muster: Open Cluster Management in Python."""
