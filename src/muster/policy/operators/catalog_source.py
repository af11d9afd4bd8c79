"""The CatalogSource of the operator. An installed operator runs without it, so a policy configures whether its health counts."""

from __future__ import annotations

from typing import Final

from muster.machinery.objects import Object
from muster.policy.operators import conditions, related
from muster.policy.operators.kinds import CATALOG_SOURCES as SOURCES
from muster.policy.operators.kinds import text_at, value_at
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.steps import Report

KIND: Final = SOURCES.kind
READY: Final = "READY"
UNKNOWN_STATE: Final = conditions.condition(
    conditions.CATALOG_UNKNOWN, "True", "LastObservedUnknown", "could not determine last observed state of CatalogSource"
)


def without_subscription(policy: ResolvedPolicy) -> Report:
    """Related objects stay as they were."""
    return Report(conditions.unknown(KIND) if policy.is_musthave else conditions.not_applicable(KIND))


def evaluate(policy: ResolvedPolicy, subscription: Object, found: Object | None) -> Report:
    name, namespace = text_at(subscription, "spec", "source"), text_at(subscription, "spec", "sourceNamespace")
    if not policy.is_musthave:
        if found is None:
            about = related.named(SOURCES, name, namespace, "Compliant", related.ABSENT)
        else:
            about = related.existing(SOURCES, found, "Compliant", related.NOT_APPLICABLE)
        return Report(conditions.not_applicable(KIND), (about,))
    if found is not None and not isinstance(value_at(found, "status", "connectionState"), dict):
        reason = "Resource found but current state is unknown"
        return Report(UNKNOWN_STATE, (related.named(SOURCES, name, namespace, "NonCompliant", reason),))
    reason, message, why = _health(name, found)
    is_bad = reason != "CatalogSourcesFound"
    counts = is_bad and policy.spec.compliance_config.catalog_source_unhealthy != "Compliant"
    condition = conditions.condition(KIND, "True" if counts else "False", reason, message)
    return Report(condition, (related.named(SOURCES, name, namespace, "NonCompliant" if counts else "Compliant", why),))


def _health(name: str, found: Object | None) -> tuple[str, str, str]:
    """The reason and message of the condition, and the reason of the related object."""
    if found is None:
        return "CatalogSourcesNotFound", f"CatalogSource '{name}' was not found", related.MISSING
    if text_at(found, "status", "connectionState", "lastObservedState") != READY:
        unhealthy = f"{related.FOUND} but is unhealthy"
        return "CatalogSourcesFoundUnhealthy", "CatalogSource was found but is unhealthy", unhealthy
    return "CatalogSourcesFound", "CatalogSource was found", related.FOUND
