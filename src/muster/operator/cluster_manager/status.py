"""The conditions of a ClusterManager: pure functions, with OCM's types and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.api import Condition, condition_of
from muster.gateway.apiservice import unavailability
from muster.machinery.objects import Object
from muster.operator.cluster_manager.components import (
    GATEWAY_DEGRADED,
    GRPC_DEGRADED,
    PLACEMENT_DEGRADED,
    REGISTRATION_DEGRADED,
    wanted,
)
from muster.operator.cluster_manager.exposure import PORT, balancers, is_load_balanced, routed, service_name
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.conditions import APPLIED, condition
from muster.operator.deployments import Rollout

PROGRESSING: Final = "Progressing"

CRD_FAILED: Final = "CRDApplyFailed"
HUB_FAILED: Final = "HubResourceApplyFailed"
RUNTIME_FAILED: Final = "RuntimeResourceApplyFailed"
ACCOUNTS_FAILED: Final = "ServiceAccountSyncFailed"
WEBHOOK_FAILED: Final = "WebhookApplyFailed"
ADDONS_FAILED: Final = "HubAddonApplyFailed"
GATEWAY_FAILED: Final = "ClusterGatewayApplyFailed"


def applied() -> Condition:
    return condition(APPLIED, True, "ClusterManagerApplied", "Components of cluster manager are applied")


def rolling(
    plan: ClusterManagerPlan, rollouts: Mapping[str, Rollout | None], service: Object | None = None, config_problem: str = ""
) -> list[Condition]:
    """The Progressing condition of the Deployments by name; None is a missing one. `service` is the gRPC server's, `config_problem`
    the error in its configuration."""
    late = [name for name, found in rollouts.items() if found is None or not found.complete]
    if late:
        text = f"Deployments are rolling out: {', '.join(late)}"
        progressing = condition(PROGRESSING, True, "ClusterManagerDeploymentRolling", text)
    else:
        progressing = condition(PROGRESSING, False, "ClusterManagerUpToDate", "Components of cluster manager are up to date")
    return [
        progressing,
        _registration(plan, rollouts),
        _placement(plan, rollouts),
        *_grpc_server(plan, rollouts, service, config_problem),
    ]


def _registration(plan: ClusterManagerPlan, rollouts: Mapping[str, Rollout | None]) -> Condition:
    degraded = _degraded(plan, rollouts, REGISTRATION_DEGRADED, "Registration", "registration")
    return degraded or condition(REGISTRATION_DEGRADED, False, "RegistrationFunctional", "Registration is managing credentials")


def _placement(plan: ClusterManagerPlan, rollouts: Mapping[str, Rollout | None]) -> Condition:
    degraded = _degraded(plan, rollouts, PLACEMENT_DEGRADED, "Placement", "placement")
    return degraded or condition(PLACEMENT_DEGRADED, False, "PlacementFunctional", "Placement is scheduling placement decisions")


def _grpc_server(
    plan: ClusterManagerPlan, rollouts: Mapping[str, Rollout | None], service: Object | None, config_problem: str
) -> list[Condition]:
    """No condition if the server is disabled and never was enabled."""
    if not plan.grpc_server:
        known = condition_of(plan.manager.status.conditions, GRPC_DEGRADED) is not None
        text = "No registration driver of this hub has agents come through the gRPC server"
        return [condition(GRPC_DEGRADED, False, "GrpcServerNotWanted", text)] if known else []
    if config_problem:
        # Existing pods continue with the configuration that they have read.
        return [condition(GRPC_DEGRADED, True, "GrpcServerConfigInvalid", config_problem)]
    where = f"Service {plan.namespace}/{service_name(plan)}"
    degraded = _degraded(plan, rollouts, GRPC_DEGRADED, "GrpcServer", "gRPC server")
    if degraded is None and is_load_balanced(plan) and not balancers(service):
        text = f"{where} has got no address from a load balancer yet: agents outside of the cluster cannot reach it"
        degraded = condition(GRPC_DEGRADED, True, "LoadBalancerPending", text)
    text = "The gRPC server serves agents"
    if hosts := routed(plan):
        text += (
            f"; a Route of {', '.join(hosts)} that passes TLS through to port {PORT} of {where} is not made by this operator: "
            "an administrator has to make it"
        )
    return [degraded or condition(GRPC_DEGRADED, False, "GrpcServerFunctional", text)]


def gateway(
    plan: ClusterManagerPlan, rollouts: Mapping[str, Rollout | None], api_services: Mapping[str, Object | None], problem: str
) -> list[Condition]:
    """`api_services` are those of the gateway, by name; `problem` is why they cannot be applied. No condition if the gateway is
    disabled and never was enabled."""
    if not plan.gateway:
        known = condition_of(plan.manager.status.conditions, GATEWAY_DEGRADED) is not None
        text = "The feature gate of the gateway is off"
        return [condition(GATEWAY_DEGRADED, False, "ClusterGatewayNotWanted", text)] if known else []
    if problem:
        return [condition(GATEWAY_DEGRADED, True, "GroupVersionTaken", problem)]
    if degraded := _degraded(plan, rollouts, GATEWAY_DEGRADED, "ClusterGateway", "cluster gateway"):
        return [degraded]
    for name, found in api_services.items():
        if hindrance := "it is not there yet" if found is None else unavailability(found):
            text = f"APIService {name} is not available: {hindrance}"
            return [condition(GATEWAY_DEGRADED, True, "APIServiceUnavailable", text)]
    text = f"The gateway serves {', '.join(api_services)}"
    return [condition(GATEWAY_DEGRADED, False, "ClusterGatewayFunctional", text)]


def _degraded(
    plan: ClusterManagerPlan, rollouts: Mapping[str, Rollout | None], kind: str, stem: str, what: str
) -> Condition | None:
    """The condition that reports the problems of its Deployments."""
    names = [one.deployment(plan) for one in wanted(plan) if one.degraded == kind]
    missing = [name for name in names if rollouts.get(name) is None]
    if missing:
        text = f"Failed to get {what} deployment {', '.join(f'{plan.namespace}/{name}' for name in missing)}"
        return condition(kind, True, f"Get{stem}DeploymentFailed", text)
    found = {name: rollout for name in names if (rollout := rollouts[name]) is not None}
    short = [
        f"{one.wanted - one.available} of requested {one.wanted} pods of deployment {plan.namespace}/{name} are not available"
        for name, one in found.items()
        if not one.functional
    ]
    return condition(kind, True, f"Unavailable{stem}Pod", "; ".join(short)) if short else None
