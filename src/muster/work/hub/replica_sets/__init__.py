"""ManifestWorkReplicaSets: one work in the namespace of each cluster that placements chose, rolled out as their strategies say.

`decisions` reads which clusters those are, `replicas` how each one's work fares, `rollout` says which clusters are next,
`reporting` what the set's status is; all of these are functions of what they are given. `controller` does what they say.
"""
