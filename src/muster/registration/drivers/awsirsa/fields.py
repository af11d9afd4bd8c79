"""Parsing of the ARNs in fields of custom resources and in flags; errors name the field."""

from __future__ import annotations

from muster.aws.arns import BadArn, EksCluster
from muster.aws.arns import parse_cluster_arn as read
from muster.aws.role_names import LONGEST_ROLE
from muster.aws.role_names import identity_creator as creator_of
from muster.registration.drivers.errors import BadField


def eks_cluster(arn: str, field: str) -> EksCluster:
    """The EKS cluster of an ARN. Raises BadField."""
    try:
        return read(arn)
    except BadArn as error:
        raise BadField(field, f"registration by AWS identities: {error}") from None


def is_eks_cluster(text: str) -> bool:
    try:
        read(text)
    except BadArn:
        return False
    return True


def identity_creator(hub: EksCluster, field: str) -> str:
    """The ARN of the role with which the hub's controllers create identities. Raises BadField."""
    role = creator_of(hub)
    if len(role) > LONGEST_ROLE:
        raise BadField(field, f"the role {role} would be longer than the {LONGEST_ROLE} characters that IAM allows")
    return hub.role_arn(role)
