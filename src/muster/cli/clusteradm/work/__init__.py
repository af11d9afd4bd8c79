"""What `clusteradm` does with works: making and deleting them, showing how they fare, asking beforehand whether they may."""
