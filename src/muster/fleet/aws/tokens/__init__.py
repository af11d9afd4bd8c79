"""Whose token is it: EKS' answer to a cluster's API server, as aws-iam-authenticator gives it.

`webhook.py` answers TokenReviews, `mapping.py` says which Kubernetes user an IAM identity is, `aws_auth.py` reads the ConfigMap.
"""
