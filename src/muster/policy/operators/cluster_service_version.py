"""The ClusterServiceVersion: the installed version of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.policy.v1beta1 import RelatedObject
from muster.machinery.objects import Object
from muster.policy.operators import conditions, related
from muster.policy.operators.kinds import CSVS, name_of, namespace_of, text_at
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.removal import remove
from muster.policy.operators.steps import Report, Step

KIND: Final = CSVS.kind
NONE_RELEVANT: Final = Report(
    conditions.condition(KIND, "False", "RelevantCSVNotFound", "a relevant installed ClusterServiceVersion could not be found"),
    (related.named(CSVS, "", "", "Inapplicable", "No relevant ClusterServiceVersion found"),),
)


def installed(subscription: Object, csvs: Sequence[Object]) -> Object | None:
    """The one that the Subscription has installed."""
    name = text_at(subscription, "status", "installedCSV")
    return next((csv for csv in csvs if name and name_of(csv) == name), None)


def musthave(policy: ResolvedPolicy, subscription: Object, csvs: Sequence[Object]) -> Report:
    found = installed(subscription, csvs)
    if found is None:
        # Before OLM has set installedCSV, all with the operator's label are related.
        candidates = () if text_at(subscription, "status", "installedCSV") else tuple(_existing(csv) for csv in csvs)
        nothing = related.named(CSVS, name_of(subscription), namespace_of(subscription), "NonCompliant", related.MISSING)
        return Report(conditions.missing(KIND), candidates or (nothing,))
    name = name_of(found)
    if not policy.allows(name):
        problem = f"{KIND} ({name}) is not an approved version"
        condition = conditions.condition(KIND, "False", "UnapprovedVersion", problem)
        return Report(condition, (related.existing(CSVS, found, "NonCompliant", problem),))
    message = f"{KIND} ({name}) - {text_at(found, 'status', 'message')}"
    status: conditions.Status = "True" if _succeeded(found) else "False"
    return Report(conditions.condition(KIND, status, text_at(found, "status", "reason"), message), (_existing(found),))


def mustnothave(policy: ResolvedPolicy, subscription: Object, csvs: Sequence[Object]) -> Step:
    if not csvs:
        nothing = related.named(CSVS, "", namespace_of(subscription), "Compliant", related.ABSENT)
        return Step(Report(conditions.not_present(KIND), (nothing,)))
    return remove(policy, CSVS, csvs, policy.spec.removal_behavior.cluster_service_versions, [name_of(csv) for csv in csvs])


def _succeeded(csv: Object) -> bool:
    return text_at(csv, "status", "phase") == "Succeeded"


def _existing(csv: Object) -> RelatedObject:
    return related.existing(CSVS, csv, "Compliant" if _succeeded(csv) else "NonCompliant", text_at(csv, "status", "reason"))
