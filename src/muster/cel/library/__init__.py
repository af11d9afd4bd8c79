"""Function libraries, one module per library, and the set Kubernetes enables."""
