"""The policy documents of two roles that trust each other: upstream's, with the partition of their clusters.

`managed_*` are those of the role in the managed cluster's account, which its agents assume by their service account tokens; `hub_*`
those of the role in the hub's account, which only that role with its four tags may assume; `creator_access` is that of the role
with which the hub's controllers create and delete the others: each action is required, as a test shows for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.aws.arns import EksCluster
from muster.aws.interfaces import PolicyDocument
from muster.aws.role_names import HUB_ROLE, RoleNames

VERSION: Final = "2012-10-17"
AUDIENCE: Final = "sts.amazonaws.com"
ACCESS_POLICY: Final = "open-cluster-management"
"""The name of the inline policies."""


def hub_trust(pair: RoleNames) -> PolicyDocument:
    tags = {f"aws:PrincipalTag/{key}": value for key, value in pair.tags.items()}
    return _document(
        {
            "Effect": "Allow",
            "Principal": {"AWS": pair.managed_role_arn},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": tags},
        }
    )


def hub_access(hub: EksCluster) -> PolicyDocument:
    return _document({"Effect": "Allow", "Action": ["eks:DescribeCluster", "eks:ListClusters"], "Resource": str(hub)})


def managed_access(pair: RoleNames) -> PolicyDocument:
    return _document({"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": pair.hub_role_arn})


CREATOR_ROLE_ACTIONS: Final = (
    "iam:CreateRole",
    "iam:DeleteRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:GetRole",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
    "iam:PutRolePolicy",
    "iam:TagRole",
    "iam:UpdateAssumeRolePolicy",
)
CREATOR_ENTRY_ACTIONS: Final = (
    "eks:CreateAccessEntry",
    "eks:DeleteAccessEntry",
    "eks:DescribeAccessEntry",
    "eks:TagResource",
    "eks:UpdateAccessEntry",
)


def creator_access(hub: EksCluster, *, entries: bool) -> PolicyDocument:
    """`entries`: whether clusters may be mapped by access entries, which the hub then creates too."""
    roles = {"Effect": "Allow", "Action": list(CREATOR_ROLE_ACTIONS), "Resource": hub.role_arn(f"{HUB_ROLE}*")}
    mode = {"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": str(hub)}
    if not entries:
        return _document(roles, mode)
    access_entries = f"arn:{hub.partition}:eks:{hub.region}:{hub.account}:access-entry/{hub.name}/*"
    mapped = {"Effect": "Allow", "Action": list(CREATOR_ENTRY_ACTIONS), "Resource": [str(hub), access_entries]}
    return _document(roles, mode, mapped)


def web_identity_trust(account: EksCluster, provider: str, subjects: Iterable[str]) -> PolicyDocument:
    """Permits service accounts of a cluster; `provider` is its issuer without https://, `account` a cluster of the same account."""
    federated = f"arn:{account.partition}:iam::{account.account}:oidc-provider/{provider}"
    return _document(
        *(
            {
                "Effect": "Allow",
                "Principal": {"Federated": federated},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {"StringEquals": {f"{provider}:sub": subject, f"{provider}:aud": AUDIENCE}},
            }
            for subject in subjects
        )
    )


def _document(*statements: Mapping[str, Any]) -> PolicyDocument:
    return {"Version": VERSION, "Statement": list(statements)}
