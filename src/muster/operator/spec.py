"""What the specs of both kinds have in common: feature gates, registration drivers, names of clusters in AWS.

Nothing in a spec is wrong beyond repair: an unknown gate is passed over and named, and for a field that nothing sensible can be
made of `BadSpec` is raised, so that one bad object gets a condition and nobody else notices.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.api.operator.v1 import FeatureGate

DRIVERS: Final[Mapping[str, str]] = {"csr": "csr", "awsirsa": "awsirsa", "aws-irsa": "awsirsa", "grpc": "grpc"}
"""Every spelling of an authType, to the driver's name."""
ROLE_ARN: Final = "eks.amazonaws.com/role-arn"
"""The annotation that ties an account to an AWS role."""
LONGEST_ROLE: Final = 64

_ARN: Final = re.compile(r"arn:(?P<partition>aws[a-z-]*):eks:[^:]+:(?P<account>\d{12}):cluster/(?P<name>[\w-]+)")


class BadSpec(Exception):
    """A field that nothing sensible can be made of."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


@dataclass(frozen=True)
class EksCluster:
    partition: str
    account: str
    name: str

    def role_arn(self, role: str) -> str:
        return f"arn:{self.partition}:iam::{self.account}:role/{role}"


def eks_cluster(arn: str, field: str) -> EksCluster:
    """Raises BadSpec."""
    found = _ARN.fullmatch(arn)
    if found is None:
        raise BadSpec(field, "registration by AWS identities needs arn:aws:eks:REGION:ACCOUNT:cluster/NAME")
    return EksCluster(found["partition"], found["account"], found["name"])


def gate_flags(gates: Iterable[FeatureGate], known: Collection[str]) -> list[str]:
    """The flag that says how known gates are switched; none when none is."""
    switched = [f"{gate.feature}={str(gate.mode == 'Enable').lower()}" for gate in gates if gate.feature in known]
    return [f"--feature-gates={','.join(switched)}"] if switched else []


def invalid_gates(gates: Iterable[FeatureGate], known: Collection[str], unsupported: Collection[str] = ()) -> list[str]:
    """What is switched but not known, or on but not supported."""
    return [gate.feature for gate in gates if not _valid(gate, known, unsupported)]


def _valid(gate: FeatureGate, known: Collection[str], unsupported: Collection[str]) -> bool:
    return gate.feature in known or (gate.feature in unsupported and gate.mode != "Enable")
