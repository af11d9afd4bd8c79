"""Works: manifests that a hub hands to a managed cluster, applied there as far as their executor may, and reported back.

`agent/` runs for a managed cluster, `hub/` on the hub (admission of works, works for many clusters, removal of finished ones).
"""
