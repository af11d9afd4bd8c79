"""What a ClusterManager's status says: pure functions from what was found to conditions, with OCM's types and reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from muster.api import Condition, with_condition
from muster.api.operator.v1 import ClusterManager, GenerationStatus, RelatedResource
from muster.operator.cluster_manager.manifests import COMPONENTS
from muster.operator.cluster_manager.plan import Plan
from muster.operator.deployments import Rollout

APPLIED: Final = "Applied"
PROGRESSING: Final = "Progressing"
VALID_GATES: Final = "ValidFeatureGates"
REGISTRATION_DEGRADED: Final = "HubRegistrationDegraded"
DELETING: Final = "Deleting"

CRD_FAILED: Final = "CRDApplyFailed"
HUB_FAILED: Final = "HubResourceApplyFailed"
RUNTIME_FAILED: Final = "RuntimeResourceApplyFailed"
ACCOUNTS_FAILED: Final = "ServiceAccountSyncFailed"
WEBHOOK_FAILED: Final = "WebhookApplyFailed"

_LONGEST: Final = 4096


class StepFailed(Exception):
    """A step that could not be taken; `reason` is the condition's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Waiting(StepFailed):
    """A step that somebody else has to make possible first; what he does is watched."""


def applied() -> Condition:
    return _condition(APPLIED, True, "ClusterManagerApplied", "Components of cluster manager are applied")


def not_applied(failure: StepFailed) -> Condition:
    return _condition(APPLIED, False, failure.reason, failure.message)


def gates(invalid: Mapping[str, Sequence[str]]) -> Condition:
    if not invalid:
        return _condition(VALID_GATES, True, "FeatureGatesAllValid", "Feature gates are all valid")
    listed = ", ".join(f"{component}: [{' '.join(names)}]" for component, names in invalid.items())
    return _condition(VALID_GATES, False, "InvalidFeatureGatesExisting", f"There are some invalid feature gates of {listed}")


def rolling(plan: Plan, rollouts: Mapping[str, Rollout | None]) -> list[Condition]:
    """Of the Deployments by name; None is one that is not there."""
    late = [name for name, found in rollouts.items() if found is None or not found.complete]
    if late:
        text = f"Deployments are rolling out: {', '.join(late)}"
        progressing = _condition(PROGRESSING, True, "ClusterManagerDeploymentRolling", text)
    else:
        progressing = _condition(PROGRESSING, False, "ClusterManagerUpToDate", "Components of cluster manager are up to date")
    return [progressing, _registration(plan, rollouts)]


def _registration(plan: Plan, rollouts: Mapping[str, Rollout | None]) -> Condition:
    names = [one.deployment(plan) for one in COMPONENTS if one.degraded == REGISTRATION_DEGRADED]
    missing = [name for name in names if rollouts.get(name) is None]
    if missing:
        text = f"Failed to get registration deployment {', '.join(f'{plan.namespace}/{name}' for name in missing)}"
        return _condition(REGISTRATION_DEGRADED, True, "GetRegistrationDeploymentFailed", text)
    found = {name: rollout for name in names if (rollout := rollouts[name]) is not None}
    short = [
        f"{one.wanted - one.available} of requested {one.wanted} pods of deployment {plan.namespace}/{name} are not available"
        for name, one in found.items()
        if not one.functional
    ]
    if short:
        return _condition(REGISTRATION_DEGRADED, True, "UnavailableRegistrationPod", "; ".join(short))
    return _condition(REGISTRATION_DEGRADED, False, "RegistrationFunctional", "Registration is managing credentials")


def deleting(remaining: Sequence[str]) -> Condition:
    return _condition(DELETING, False, "ResourceRemaining", f"Still there: {'; '.join(remaining)}")


def _condition(kind: str, status: bool, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=str(status), reason=reason, message=message[:_LONGEST])


def with_status(
    manager: ClusterManager,
    conditions: Sequence[Condition],
    now: str,
    *,
    generations: tuple[GenerationStatus, ...] | None = None,
    related: tuple[RelatedResource, ...] | None = None,
) -> ClusterManager:
    """The ClusterManager with what is said about its present generation; what is None stays as it is."""
    status = manager.status
    generation = manager.metadata.generation
    said = status.conditions
    for condition in conditions:
        said = with_condition(said, msgspec.structs.replace(condition, observed_generation=generation), now)
    status = msgspec.structs.replace(
        status,
        conditions=said,
        observed_generation=generation,
        generations=status.generations if generations is None else generations,
        related_resources=status.related_resources if related is None else related,
    )
    return msgspec.structs.replace(manager, status=status)
