"""What an agent tells its hub: that the cluster lives, and how it is."""
