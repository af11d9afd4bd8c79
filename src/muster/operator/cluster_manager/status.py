"""What a ClusterManager's status says: pure functions from what was found to conditions, with OCM's types and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.api import Condition
from muster.operator.cluster_manager.components import REGISTRATION_DEGRADED, wanted
from muster.operator.cluster_manager.plan import Plan
from muster.operator.deployments import Rollout
from muster.operator.reporting import APPLIED, condition

PROGRESSING: Final = "Progressing"

CRD_FAILED: Final = "CRDApplyFailed"
HUB_FAILED: Final = "HubResourceApplyFailed"
RUNTIME_FAILED: Final = "RuntimeResourceApplyFailed"
ACCOUNTS_FAILED: Final = "ServiceAccountSyncFailed"
WEBHOOK_FAILED: Final = "WebhookApplyFailed"


def applied() -> Condition:
    return condition(APPLIED, True, "ClusterManagerApplied", "Components of cluster manager are applied")


def rolling(plan: Plan, rollouts: Mapping[str, Rollout | None]) -> list[Condition]:
    """Of the Deployments by name; None is one that is not there."""
    late = [name for name, found in rollouts.items() if found is None or not found.complete]
    if late:
        text = f"Deployments are rolling out: {', '.join(late)}"
        progressing = condition(PROGRESSING, True, "ClusterManagerDeploymentRolling", text)
    else:
        progressing = condition(PROGRESSING, False, "ClusterManagerUpToDate", "Components of cluster manager are up to date")
    return [progressing, _registration(plan, rollouts)]


def _registration(plan: Plan, rollouts: Mapping[str, Rollout | None]) -> Condition:
    names = [one.deployment(plan) for one in wanted(plan) if one.degraded == REGISTRATION_DEGRADED]
    missing = [name for name in names if rollouts.get(name) is None]
    if missing:
        text = f"Failed to get registration deployment {', '.join(f'{plan.namespace}/{name}' for name in missing)}"
        return condition(REGISTRATION_DEGRADED, True, "GetRegistrationDeploymentFailed", text)
    found = {name: rollout for name in names if (rollout := rollouts[name]) is not None}
    short = [
        f"{one.wanted - one.available} of requested {one.wanted} pods of deployment {plan.namespace}/{name} are not available"
        for name, one in found.items()
        if not one.functional
    ]
    if short:
        return condition(REGISTRATION_DEGRADED, True, "UnavailableRegistrationPod", "; ".join(short))
    return condition(REGISTRATION_DEGRADED, False, "RegistrationFunctional", "Registration is managing credentials")
