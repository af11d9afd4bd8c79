"""ManifestWorks: manifests for a managed cluster, applied there with the permissions of their executor, and reported back.

`agent/` runs for a managed cluster, `hub/` on the hub (admission of works, works for many clusters, deletion of completed works).
"""
