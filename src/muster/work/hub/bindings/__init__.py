"""ManagedServiceAccountBindings: who on the hub may have works run as which managed service account.

A ManagedServiceAccount `name` in the namespace of cluster C is, on that cluster, the service account `name` in the namespace of the
addon that keeps it there. A binding names the account and its subjects, in the manner of RBAC. Where the hub is told to heed
bindings (`--executor-authorization`), a subject may write works in C whose executor is that service account.
"""
