"""Function libraries, one module per library, and the set that Kubernetes enables."""
