"""Parsing of ARNs of clusters and roles, in all partitions.

ASCII only: look-alike digits and letters of other scripts are refused. Errors have the expected format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from muster.aws import partitions

PARTITIONS: Final = tuple(one.name for one in reversed(partitions.PARTITIONS))

_PARTITION: Final = r"(?P<partition>aws(?:-[a-z]+){0,3})"
_EKS: Final = re.compile(
    rf"arn:{_PARTITION}:eks:(?P<region>{partitions.REGION}):(?P<account>[0-9]{{12}})"
    r":cluster/(?P<name>[0-9A-Za-z][A-Za-z0-9_-]{0,99})"
)
_ROLE: Final = re.compile(
    rf"arn:{_PARTITION}:iam::(?P<account>[0-9]{{12}}):role(?P<path>/(?:[!-~]{{1,510}}/)?)(?P<name>[A-Za-z0-9_+=,.@-]{{1,64}})"
)

EKS_FORM: Final = "arn:aws:eks:REGION:ACCOUNT:cluster/NAME"


class BadArn(ValueError):
    """An invalid ARN; the text has the expected format."""


@dataclass(frozen=True)
class EksCluster:
    partition: str
    region: str
    account: str
    name: str

    def __str__(self) -> str:
        return f"arn:{self.partition}:eks:{self.region}:{self.account}:cluster/{self.name}"

    def role_arn(self, role: str) -> str:
        """The ARN of a role in this cluster's account."""
        return f"arn:{self.partition}:iam::{self.account}:role/{role}"


@dataclass(frozen=True)
class RoleArn:
    partition: str
    account: str
    path: str
    name: str

    def __str__(self) -> str:
        return f"arn:{self.partition}:iam::{self.account}:role{self.path}{self.name}"


def parse_cluster_arn(arn: str) -> EksCluster:
    """Raises BadArn."""
    found = _EKS.fullmatch(arn)
    if found is None:
        raise BadArn(f"{arn[:200]!r} is not the ARN of an EKS cluster, {EKS_FORM} (12 digits of account)")
    if found["partition"] not in PARTITIONS:
        raise BadArn(f"there is no partition {found['partition']!r} of AWS; there are: {', '.join(PARTITIONS)}")
    return EksCluster(found["partition"], found["region"], found["account"], found["name"])


def parse_role_arn(arn: str) -> RoleArn:
    """Raises BadArn."""
    found = _ROLE.fullmatch(arn)
    if found is None:
        raise BadArn(f"{arn[:200]!r} is not the ARN of a role, arn:aws:iam::ACCOUNT:role/NAME")
    return RoleArn(found["partition"], found["account"], found["path"], found["name"])
