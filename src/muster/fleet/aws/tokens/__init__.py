"""Token authentication for a cluster's API server, as EKS' aws-iam-authenticator does it.

`webhook.py` answers TokenReviews, `mapper.py` maps an IAM identity to a Kubernetes user, `aws_auth.py` parses the ConfigMap.
"""
