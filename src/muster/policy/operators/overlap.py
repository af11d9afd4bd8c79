"""Enforced policies that manage one and the same Subscription: they would undo each other's work, so none of them does any."""

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
    """The policies, this one included, as `name.namespace`; nothing when there is no other. `others` manage the same Subscription,
    but maybe of another cluster: where a cluster hosts the policies of several, labels tell whose they are."""
    cluster = _cluster(policy)
    found = {
        key_of(other)
        for other in others
        if key_of(other) != key_of(policy) and other.spec is not None and is_enforced(other.spec) and _cluster(other) == cluster
    }
    return tuple(sorted(f"{key.name}.{key.namespace}" for key in {*found, key_of(policy)})) if found else ()


def overlap_problem(policies: tuple[str, ...]) -> str:
    return f"the specified operator is managed by multiple enforced policies ({', '.join(policies)})"


def policies_named(policies: Iterable[str]) -> Iterable[ObjectKey]:
    """The policies of a status' `overlappingPolicies`; what is not one is passed over. A policy's name may have dots, a
    namespace's never."""
    for entry in policies:
        name, dot, namespace = entry.rpartition(".")
        if dot:
            yield ObjectKey(namespace, name)


def _cluster(policy: OperatorPolicy) -> tuple[str, ...]:
    return tuple(policy.metadata.labels.get(label, "") for label in _CLUSTER_LABELS)
