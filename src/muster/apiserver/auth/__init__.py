"""Authentication, RBAC authorization, impersonation, and the certificates and service account tokens of a cluster."""
