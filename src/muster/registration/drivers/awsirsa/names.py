"""Names of registration by AWS identities: flags, and what EKS puts into pods that have a role."""

from __future__ import annotations

from typing import Final

HUB_ARN: Final = "hub-cluster-arn"
MANAGED_ARN: Final = "managed-cluster-arn"
ROLE_SUFFIX: Final = "managed-cluster-role-suffix"
TOKEN_COMMAND: Final = "token-command"
"""Driver option: the program in agents' kubeconfigs that makes tokens: `muster` or `aws`, or a path to one of them."""
PATTERNS: Final = "auto-approved-arn-patterns"
TAGS: Final = "aws-resource-tags"
MAPPING: Final = "aws-mapping"
IDENTITY: Final = "aws-identity"

ROLE_ARN: Final = "eks.amazonaws.com/role-arn"
"""The annotation that associates a service account with an AWS role."""
TOKEN_VOLUME: Final = "aws-iam-token"
TOKEN_DIRECTORY: Final = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
TOKEN_FILE: Final = "token"
TOKEN_SECONDS: Final = 86400
