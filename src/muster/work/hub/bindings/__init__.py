"""ManagedServiceAccountBindings: which users of the hub may write works that run as a managed service account.

A ManagedServiceAccount `name` in the namespace of cluster C is, on that cluster, the service account `name` in the namespace of the
addon that creates it. A binding names the account and its subjects, as in RBAC. If the hub uses bindings
(`--executor-authorization`), a subject may write works in C whose executor is that service account.
"""
