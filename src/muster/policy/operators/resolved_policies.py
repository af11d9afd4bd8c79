"""The resolved state of all policies, beside their status.

Policies of one namespace approve InstallPlans together, and those with the same Subscription must know each other, so each needs
the resolved templates of the others. A status contains the Subscription, but only after it is written; what this process has
resolved itself has precedence, as long as the policy has not changed since.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.api.policy.v1beta1 import OperatorPolicy, OperatorPolicySpec
from muster.machinery.objects import ObjectKey
from muster.policy.operators.overlap import key_of
from muster.policy.operators.policy import ResolvedPolicy, canonical_versions


class ResolvedPolicies:
    def __init__(self) -> None:
        self._resolved: dict[ObjectKey, tuple[str, int, str, ResolvedPolicy]] = {}
        """By key: uid and generation of the policy, the label of its Subscription, and the resolved policy."""

    def record(self, policy: OperatorPolicy, label: str, resolved: ResolvedPolicy) -> None:
        self._resolved[key_of(policy)] = policy.metadata.uid, policy.metadata.generation, label, resolved

    def forget(self, key: ObjectKey) -> None:
        self._resolved.pop(key, None)

    def sharing(self, label: str, policies: Iterable[OperatorPolicy]) -> list[OperatorPolicy]:
        """Policies whose Subscription has this label."""
        return [policy for policy in policies if self._label(policy) == label]

    def get(self, policy: OperatorPolicy) -> ResolvedPolicy | None:
        """The resolved policy; the unresolved one if it was not resolved yet."""
        if (known := self._known(policy)) is not None:
            return known[1]
        return None if policy.spec is None else unresolved_policy(key_of(policy), policy.spec)

    def _label(self, policy: OperatorPolicy) -> str:
        known = self._known(policy)
        return policy.status.resolved_subscription_label if known is None else known[0]

    def _known(self, policy: OperatorPolicy) -> tuple[str, ResolvedPolicy] | None:
        uid, generation, label, resolved = self._resolved.get(key_of(policy), ("", 0, "", None))
        is_current = (uid, generation) == (policy.metadata.uid, policy.metadata.generation)
        return (label, resolved) if resolved is not None and is_current else None


def unresolved_policy(key: ObjectKey, spec: OperatorPolicySpec) -> ResolvedPolicy:
    return ResolvedPolicy(key, spec, canonical_versions(spec.versions))
