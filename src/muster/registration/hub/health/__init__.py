"""The health of clusters, and its consequences for placements and addons."""
