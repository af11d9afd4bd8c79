"""Detects enforced policies that manage the same Subscription: they would undo each other's changes, so none of them is
enforced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.api.policy.v1beta1 import OperatorPolicy
from muster.machinery.objects import ObjectKey
from muster.policy.operators.kinds import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL
from muster.policy.operators.policy import is_enforced

_CLUSTER_LABELS: Final = (CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL)


def key_of(policy: OperatorPolicy) -> ObjectKey:
    return ObjectKey(policy.metadata.namespace, policy.metadata.name)


def overlapping(policy: OperatorPolicy, others: Iterable[OperatorPolicy]) -> tuple[str, ...]:
    """The overlapping policies, including this one, as `name.namespace`; empty without another one. `others` manage the same
    Subscription, but possibly of another cluster: labels identify the cluster where one cluster hosts the policies of several."""
    cluster = _cluster(policy)
    found = {
        key_of(other)
        for other in others
        if key_of(other) != key_of(policy) and other.spec is not None and is_enforced(other.spec) and _cluster(other) == cluster
    }
    return tuple(sorted(f"{key.name}.{key.namespace}" for key in {*found, key_of(policy)})) if found else ()


def overlap_problem(policies: tuple[str, ...]) -> str:
    return f"the specified operator is managed by multiple enforced policies ({', '.join(policies)})"


def parse_policies(policies: Iterable[str]) -> Iterable[ObjectKey]:
    """The policies in a status's `overlappingPolicies`; invalid entries are skipped. The name of a policy may contain dots, a
    namespace cannot."""
    for entry in policies:
        name, dot, namespace = entry.rpartition(".")
        if dot:
            yield ObjectKey(namespace, name)


def _cluster(policy: OperatorPolicy) -> tuple[str, ...]:
    return tuple(policy.metadata.labels.get(label, "") for label in _CLUSTER_LABELS)
