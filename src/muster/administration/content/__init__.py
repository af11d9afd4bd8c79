"""A hub's content for its clusters: works, addons, cluster sets, placements and policies."""
