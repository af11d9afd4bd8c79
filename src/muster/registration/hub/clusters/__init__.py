"""Acceptance of clusters, their permissions, and the cleanup before a deleted cluster is removed."""
