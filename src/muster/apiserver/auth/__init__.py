"""Who a request comes from and what it may do: authentication, RBAC, reviews, certificates and service-account tokens."""
