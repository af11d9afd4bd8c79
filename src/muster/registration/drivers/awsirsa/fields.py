"""ARNs in fields of CRs and behind flags: what is wrong with one is said with the field's name."""

from __future__ import annotations

from muster.aws.arns import BadArn, EksCluster
from muster.aws.arns import parse_cluster_arn as read
from muster.aws.role_names import LONGEST_ROLE
from muster.aws.role_names import identity_creator as creator_of
from muster.registration.drivers.errors import BadField


def eks_cluster(arn: str, field: str) -> EksCluster:
    """Raises BadField."""
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
    """ARN of the role as which the hub's controllers make identities. Raises BadField."""
    role = creator_of(hub)
    if len(role) > LONGEST_ROLE:
        raise BadField(field, f"the role {role} would be longer than the {LONGEST_ROLE} characters that IAM allows")
    return hub.role_arn(role)
