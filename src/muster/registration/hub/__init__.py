"""The hub's side of registration: acceptance, permissions and health of clusters, and the cleanup of deleted ones."""
