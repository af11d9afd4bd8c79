"""The operator's Deployments, as listed in its ClusterServiceVersion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.api.policy.v1beta1 import RelatedObject
from muster.machinery.objects import Object
from muster.policy.operators import conditions, related
from muster.policy.operators.kinds import namespace_of, objects_at, text_at, value_at
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.steps import Report
from muster.runtime.client.builtin import DEPLOYMENTS

KIND: Final = DEPLOYMENTS.kind
NONE_RELEVANT: Final = Report(
    conditions.condition(
        KIND,
        "True",
        "NoRelevantDeployments",
        "there are no relevant deployments because the ClusterServiceVersion is missing",
    ),
    (related.named(DEPLOYMENTS, "", "", "Inapplicable", "No relevant deployments found"),),
)
_TOLERATED: Final = " (policy compliance is not impacted due to spec.complianceConfig.deploymentsUnavailable)"


def names(csv: Object) -> list[str]:
    return [text_at(one, "name") for one in objects_at(csv, "spec", "install", "spec", "deployments") if text_at(one, "name")]


def without_csv(policy: ResolvedPolicy) -> Report:
    return NONE_RELEVANT if policy.is_musthave else Report(conditions.not_applicable(KIND))


def evaluate(policy: ResolvedPolicy, csv: Object, found: Mapping[str, Object | None]) -> Report:
    """`found` has a Deployment, or None, for each name."""
    objects = tuple(_related(policy, csv, name, deployment) for name, deployment in found.items())
    if not policy.is_musthave:
        return Report(conditions.not_applicable(KIND), objects)
    existing = {name: deployment for name, deployment in found.items() if deployment is not None}
    unavailable = [name for name, deployment in existing.items() if _is_unavailable(deployment)]
    if unavailable:
        status: conditions.Status = "True" if _is_tolerated(policy) else "False"
        message = f"the deployments {', '.join(unavailable)} do not have their minimum availability"
        return Report(conditions.condition(KIND, status, "DeploymentsUnavailable", message), objects)
    if not existing:
        return Report(conditions.condition(KIND, "True", "NoExistingDeployments", "no existing operator Deployments"), objects)
    message = "all operator Deployments have their minimum availability"
    return Report(conditions.condition(KIND, "True", "DeploymentsAvailable", message), objects)


def _is_unavailable(deployment: Object) -> bool:
    unavailable = value_at(deployment, "status", "unavailableReplicas")
    return isinstance(unavailable, int) and unavailable > 0


def _is_tolerated(policy: ResolvedPolicy) -> bool:
    return policy.spec.compliance_config.deployments_unavailable == "Compliant"


def _related(policy: ResolvedPolicy, csv: Object, name: str, deployment: Object | None) -> RelatedObject:
    if deployment is None:
        if policy.is_musthave:
            return related.named(DEPLOYMENTS, name, namespace_of(csv), "NonCompliant", related.MISSING)
        return related.named(DEPLOYMENTS, name, namespace_of(csv), "Compliant", related.ABSENT)
    if not policy.is_musthave:
        return related.existing(DEPLOYMENTS, deployment, "Compliant", related.NOT_APPLICABLE)
    if not _is_unavailable(deployment):
        return related.existing(DEPLOYMENTS, deployment, "Compliant", "Deployment Available")
    if _is_tolerated(policy):
        return related.existing(DEPLOYMENTS, deployment, "Compliant", "Deployment Unavailable" + _TOLERATED)
    return related.existing(DEPLOYMENTS, deployment, "NonCompliant", "Deployment Unavailable")
