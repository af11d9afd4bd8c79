"""Optional components of a hub: enabled and disabled by name in its ClusterManager.

The operator does the rest, so repeated calls change nothing, and an option keeps its value until it is set again. Before the
gateway is enabled, a check refuses it if another API has the same group and version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError, Refused
from muster.administration.progress import SILENT, Progress, wait
from muster.administration.readiness import deployment_problem
from muster.api import Document, condition_of
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.operator.v1 import AddOnManagerConfiguration, ClusterManager, FeatureGate
from muster.gateway.addon import CLUSTER_GATEWAY
from muster.gateway.apiservice import (
    API_VERSION_ANNOTATION,
    API_VERSIONS,
    OAM_ANNOTATION,
    POSSIBLE_API_SERVICES,
    api_services,
    collision,
    version_remedy,
)
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.operator.applier import ObjectRef, remove
from muster.operator.cluster_manager.components import GATEWAY, GATEWAY_DEGRADED, HUB_ADDONS_CONTROLLER
from muster.operator.cluster_manager.manifests import CLUSTER_ADDONS
from muster.operator.cluster_manager.plan import HUB_ADDON_GATES, ClusterManagerPlan
from muster.operator.hub_addons import HUB_ADDONS, with_required
from muster.operator.names import CLUSTER_MANAGER, CLUSTER_MANAGER_LABEL, CLUSTER_MANAGERS
from muster.operator.spec import BadSpec
from muster.policy.addons import POLICY_ADDONS
from muster.policy.names import FRAMEWORK_ADDON
from muster.runtime.client import KubeClient, NotFound, patch_object, retry_on_conflict, served
from muster.runtime.client.builtin import API_SERVICES, DEPLOYMENTS

KNOWN: Final = tuple(HUB_ADDONS)
FEW: Final = 5
ADDONS: Final = served(ManagedClusterAddOn)


@dataclass(frozen=True)
class GatewayChoice:
    """The settings of the gateway; None leaves one unchanged."""

    api_version: str | None = None
    oam: bool | None = None

    def annotations(self) -> dict[str, str]:
        chosen = {API_VERSION_ANNOTATION: self.api_version}
        chosen |= {OAM_ANNOTATION: None if self.oam is None else str(self.oam).lower()}
        return {key: value for key, value in chosen.items() if value is not None}


AS_IT_IS: Final = GatewayChoice()


def check_names(names: Sequence[str]) -> None:
    """Raises AdministrationError."""
    if not names:
        raise AdministrationError("--names: name at least one add-on of the hub", f"there are {', '.join(KNOWN)}")
    if FRAMEWORK_ADDON in names:
        instead = " and ".join(one.name for one in POLICY_ADDONS)
        raise AdministrationError(
            f"--names: {FRAMEWORK_ADDON}: policies work here without the policy framework", f"install {instead} instead"
        )
    if unknown := [name for name in names if name not in KNOWN]:
        raise AdministrationError(
            f"--names: {', '.join(unknown)}: no add-on that can be installed here", f"there are {', '.join(KNOWN)}"
        )


async def install(client: KubeClient, names: Sequence[str], choice: GatewayChoice = AS_IT_IS, *, force: bool = False) -> list[str]:
    """Returns those that were not installed before. Raises AdministrationError and the client's errors."""
    check_names(names)
    if choice.annotations() and CLUSTER_GATEWAY.name not in names:
        raise AdministrationError(f"--api-version and --oam-api: for {CLUSTER_GATEWAY.name} only, which --names does not name")
    if choice.api_version not in (None, *API_VERSIONS):
        raise AdministrationError(f"--api-version: {choice.api_version!r} is none of {', '.join(API_VERSIONS)}")
    manager = await _manager(client)
    if CLUSTER_GATEWAY.name in names and not force:
        await refuse_collision(client, _annotated(manager, choice))
    there = _switched_on(manager)
    await _write(client, lambda current: _switched(_annotated(current, choice), {*_switched_on(current), *names}))
    return [name for name in names if name not in there]


async def switches(client: KubeClient) -> Document:
    """The fields of the ClusterManager about optional components and the gateway, as a document to apply."""
    manager = await client.get(CLUSTER_MANAGERS, CLUSTER_MANAGER)
    annotations = manager["metadata"].get("annotations") or {}
    chosen = {key: value for key, value in annotations.items() if key in (API_VERSION_ANNOTATION, OAM_ANNOTATION)}
    metadata = {"name": CLUSTER_MANAGER, **({"annotations": chosen} if chosen else {})}
    spec = {"addOnManagerConfiguration": manager["spec"]["addOnManagerConfiguration"]}
    return {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": CLUSTER_MANAGERS.kind, "metadata": metadata, "spec": spec}


async def uninstall(client: KubeClient, names: Sequence[str], *, force: bool = False) -> list[str]:
    """Returns those that were installed. Raises AdministrationError and the client's errors."""
    check_names(names)
    manager = await _manager(client)
    rest = _switched_on(manager) - set(names)
    gone = set(with_required(_switched_on(manager))) - set(with_required(rest))
    if needed := {name for name in names if name in with_required(rest)}:
        raise Refused(f"--names: {', '.join(sorted(needed))}: needed by {', '.join(sorted(rest))}", "uninstall what needs it, too")
    if not force:
        await _refuse_while_enabled(client, gone)
    await _write(client, lambda current: _switched(current, _switched_on(current) - set(names)))
    await remove(client, [ObjectRef(CLUSTER_ADDONS, name) for name in sorted(gone)], keep=lambda found: not _is_own(found))
    return [name for name in names if name in _switched_on(manager)]


async def _refuse_while_enabled(client: KubeClient, names: Collection[str]) -> None:
    """Raises Refused while clusters have such an addon: only the component itself removes it from them."""
    try:
        found = (await client.list(ADDONS)).items
    except NotFound:
        return
    enabled = [one["metadata"] for one in found if one["metadata"]["name"] in names]
    if enabled:
        clusters = ", ".join(sorted({str(one["namespace"]) for one in enabled})[:FEW])
        listed = ",".join(sorted({str(one["name"]) for one in enabled}))
        raise Refused(
            f"--names: {listed}: still enabled on clusters, such as {clusters}",
            f"run addon disable --names {listed} --all-clusters --wait first, or use --force to leave there what is there",
        )


def _is_own(found: Object) -> bool:
    return CLUSTER_MANAGER_LABEL in (found["metadata"].get("labels") or {})


def _switched_on(manager: ClusterManager) -> set[str]:
    """The components that are enabled themselves."""
    configured = manager.spec.add_on_manager_configuration
    gates = configured.feature_gates if configured else ()
    return {HUB_ADDON_GATES[gate.feature] for gate in gates if gate.feature in HUB_ADDON_GATES and gate.mode == "Enable"}


async def refuse_collision(client: KubeClient, manager: ClusterManager) -> None:
    """Raises Refused if another API has the gateway's group and version."""
    plan = ClusterManagerPlan(manager, "")
    try:
        versions = api_services(plan.gateway_version, oam=plan.gateway_oam)
    except BadSpec as error:
        raise AdministrationError(f"ClusterManager {plan.name}: {error}") from None
    if problem := await collision(client, versions, plan.hub_namespace):
        raise Refused(problem, version_remedy(plan.gateway_version))


async def await_installed(client: KubeClient, *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM) -> None:
    """Wait until all enabled components run, and the gateway answers behind the API server."""

    async def remaining() -> str:
        manager = await _manager(client)
        plan = ClusterManagerPlan(manager, "")
        for addon in plan.hub_addons:
            try:
                await client.get(CLUSTER_ADDONS, addon)
            except NotFound:
                return f"the hub does not offer {addon} to clusters yet"
        return await _deployment_problem(client, plan) or (await gateway_problem(client, manager) if plan.gateway else "")

    if not is_dry_run(client):
        await wait("add-ons of the hub", remaining, within=within, progress=progress, clock=clock)


async def _deployment_problem(client: KubeClient, plan: ClusterManagerPlan) -> str:
    try:
        return deployment_problem(await client.get(DEPLOYMENTS, HUB_ADDONS_CONTROLLER.deployment(plan), plan.namespace))
    except NotFound as error:
        return str(error)


async def await_uninstalled(client: KubeClient, *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM) -> None:
    """Wait until no disabled component runs, and its APIService is gone."""

    async def remaining() -> str:
        plan = ClusterManagerPlan(await _manager(client), "")
        ours = f"{CLUSTER_MANAGER_LABEL}={plan.name}"
        found = () if plan.gateway else (await client.list(API_SERVICES, label_selector=ours)).items
        if left := [one["metadata"]["name"] for one in found if one["metadata"]["name"] in POSSIBLE_API_SERVICES]:
            return f"APIService {', '.join(left)} is still there"
        for component in (GATEWAY, HUB_ADDONS_CONTROLLER):
            ref = ObjectRef(DEPLOYMENTS, component.deployment(plan), plan.namespace)
            if not component.wanted(plan) and await _exists(client, ref):
                return f"{ref} is still there"
        return ""

    if not is_dry_run(client):
        await wait("add-ons of the hub to be gone", remaining, within=within, progress=progress, clock=clock)


async def _exists(client: KubeClient, ref: ObjectRef) -> bool:
    try:
        await client.get(ref.resource, ref.name, ref.namespace)
    except NotFound:
        return False
    return True


async def gateway_problem(client: KubeClient, manager: ClusterManager) -> str:
    """Why an enabled gateway does not answer; empty if it does. Raises KubeError."""
    plan = ClusterManagerPlan(manager, "")
    degraded = condition_of(manager.status.conditions, GATEWAY_DEGRADED)
    if degraded is not None and degraded.status == "True":
        return f"{degraded.reason}: {degraded.message}"
    try:
        versions = api_services(plan.gateway_version, oam=plan.gateway_oam)
    except BadSpec as error:
        return str(error)
    for group, version in versions:
        # The APIService's condition may be from before a change of version.
        try:
            await client.api_resources(f"{group}/{version}")
        except NotFound:
            return f"{group}/{version} is not served yet"
    return "" if degraded is not None else "the operator has not dealt with it yet"


async def _manager(client: KubeClient) -> ClusterManager:
    try:
        return await client.get(ClusterManager, CLUSTER_MANAGER)
    except NotFound:
        raise AdministrationError(f"there is no ClusterManager {CLUSTER_MANAGER} on {client.server}", "run init first") from None


async def _write(client: KubeClient, change: Callable[[ClusterManager], ClusterManager]) -> None:
    async def attempt() -> None:
        current = await _manager(client)
        await patch_object(client, current, change(current))

    await retry_on_conflict(attempt)


def _annotated(manager: ClusterManager, choice: GatewayChoice) -> ClusterManager:
    annotations = {**manager.metadata.annotations, **choice.annotations()}
    return replace(manager, metadata=replace(manager.metadata, annotations=annotations))


def _switched(manager: ClusterManager, addons: Collection[str]) -> ClusterManager:
    """The ClusterManager with the feature gates of these components on, and of Muster's other components off."""
    configured = manager.spec.add_on_manager_configuration or AddOnManagerConfiguration()
    others = tuple(gate for gate in configured.feature_gates if gate.feature not in HUB_ADDON_GATES)
    own = tuple(FeatureGate(feature=gate, mode="Enable") for gate, addon in HUB_ADDON_GATES.items() if addon in addons)
    spec = replace(manager.spec, add_on_manager_configuration=replace(configured, feature_gates=(*others, *own)))
    return replace(manager, spec=spec)
