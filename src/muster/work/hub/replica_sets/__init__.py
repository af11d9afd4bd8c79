"""ManifestWorkReplicaSets: one work in the namespace of each cluster that the placements selected, rolled out by their strategies.

`decisions` reads these clusters, `replicas` the progress of each work, `rollout` decides which clusters are next, `conditions`
computes the set's status; all of these are pure functions. `controller` executes the result.
"""
