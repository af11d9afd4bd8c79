"""What EKS calls a cluster, and the roles that are named after two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import md5
from typing import Final

from muster.registration.drivers.errors import BadField

LONGEST_ROLE: Final = 64

_ARN: Final = re.compile(r"arn:(?P<partition>aws[a-z-]*):eks:[^:]+:(?P<account>\d{12}):cluster/(?P<name>[\w-]+)")


@dataclass(frozen=True)
class EksCluster:
    partition: str
    account: str
    name: str

    def role_arn(self, role: str) -> str:
        return f"arn:{self.partition}:iam::{self.account}:role/{role}"


def eks_cluster(arn: str, field: str) -> EksCluster:
    """Raises BadField."""
    found = _ARN.fullmatch(arn)
    if found is None:
        raise BadField(field, "registration by AWS identities needs arn:aws:eks:REGION:ACCOUNT:cluster/NAME")
    return EksCluster(found["partition"], found["account"], found["name"])


def identity_creator(hub: EksCluster, field: str) -> str:
    """The role as which the hub's controllers make identities. Raises BadField."""
    role = f"{hub.name}_managed-cluster-identity-creator"
    if len(role) > LONGEST_ROLE:
        raise BadField(field, f"the role {role} would be longer than the {LONGEST_ROLE} characters that IAM allows")
    return hub.role_arn(role)


def role_suffix(hub: EksCluster, managed: EksCluster) -> str:
    """By which both clusters' roles are known to belong together."""
    told = "#".join((hub.account, hub.name, managed.account, managed.name))
    return md5(told.encode(), usedforsecurity=False).hexdigest()
