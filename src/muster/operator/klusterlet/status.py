"""The conditions of a Klusterlet: pure functions, with OCM's types and reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.api import Condition
from muster.operator.conditions import APPLIED, condition
from muster.operator.deployments import Rollout
from muster.operator.klusterlet.manifests import REGISTRATION_DEGRADED, WORK_DEGRADED, Component, components
from muster.operator.klusterlet.plan import KlusterletPlan

READY_TO_APPLY: Final = "ReadyToApply"
AVAILABLE: Final = "Available"

CRD_FAILED: Final = "CRDApplyFailed"
MANAGED_FAILED: Final = "ManagedClusterResourceApplyFailed"
MANAGEMENT_FAILED: Final = "ManagementClusterResourceApplyFailed"
APPLY_FAILED: Final = "KlusterletApplyFailed"
PREPARE_FAILED: Final = "KlusterletPrepareFailed"

Rollouts = Mapping[str, Rollout | None]
"""Rollouts of Deployments by name; None is a missing one."""


def applied() -> Condition:
    return condition(APPLIED, True, "KlusterletApplied", "Klusterlet components are applied")


def ready_to_apply(problem: str = "") -> Condition:
    """Of a hosted Klusterlet: whether the managed cluster is reachable."""
    if problem:
        return condition(READY_TO_APPLY, False, PREPARE_FAILED, f"Cannot connect to the managed cluster: {problem}")
    return condition(READY_TO_APPLY, True, "KlusterletPrepared", "Klusterlet is ready to apply")


def running(plan: KlusterletPlan, rollouts: Rollouts) -> list[Condition]:
    return [
        _available(plan, rollouts),
        _desired(plan, rollouts, REGISTRATION_DEGRADED),
        _desired(plan, rollouts, WORK_DEGRADED),
    ]


def _available(plan: KlusterletPlan, rollouts: Rollouts) -> Condition:
    names = [component.deployment(plan) for component in components(plan)]
    for name in names:
        found = rollouts.get(name)
        if found is None:
            return condition(AVAILABLE, False, "GetDeploymentFailed", _missing(plan, name))
        if found.available <= 0 < found.wanted:
            text = f"{found.available} of requested instances are available of deployment {plan.agent_namespace}/{name}"
            return condition(AVAILABLE, False, "NoAvailablePods", text)
    return condition(AVAILABLE, True, "KlusterletAvailable", f"deployments are ready: {','.join(names)}")


def _desired(plan: KlusterletPlan, rollouts: Rollouts, kind: str) -> Condition:
    reported: Sequence[Component] = [component for component in components(plan) if kind in component.degraded]
    if not reported:
        return condition(kind, False, "DeploymentsFunctional", "no deployment is desired for this")
    replicas = 0
    for component in reported:
        name = component.deployment(plan)
        found = rollouts.get(name)
        if found is None:
            return condition(kind, True, "GetDeploymentFailed", _missing(plan, name))
        if not found.functional:
            short = found.wanted - found.available
            text = f"{short} of requested instances are unavailable of deployment {plan.agent_namespace}/{name}"
            return condition(kind, True, "UnavailablePods", text)
        replicas += found.wanted
    return condition(kind, False, "DeploymentsFunctional", f"deployments replicas are desired: {replicas}")


def _missing(plan: KlusterletPlan, name: str) -> str:
    return f"Failed to get deployment {plan.agent_namespace}/{name}: it is not there"
