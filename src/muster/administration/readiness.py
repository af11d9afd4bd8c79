"""Whether a hub, an operator or a cluster is ready, and if not, the first reason.

Pure functions return the reason, or an empty string; `await_…` poll until there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.administration.hubs import is_hub
from muster.administration.progress import SILENT, Progress, wait
from muster.api import condition_of, is_true
from muster.api.cluster.v1 import ACCEPTED, AVAILABLE, JOINED, ManagedCluster
from muster.api.operator.v1 import ClusterManager
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, Operator
from muster.operator.cluster_manager.components import GATEWAY_DEGRADED, PLACEMENT_DEGRADED, REGISTRATION_DEGRADED
from muster.operator.cluster_manager.status import PROGRESSING
from muster.operator.conditions import APPLIED
from muster.operator.names import CLUSTER_MANAGER, CLUSTER_MANAGERS, KLUSTERLETS, OPERATOR_NAMESPACE, chosen_image
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import DEPLOYMENTS


def deployment_problem(deployment: Object) -> str:
    """Why a Deployment is not rolled out; empty if it is."""
    metadata, spec, status = deployment["metadata"], deployment["spec"], deployment.get("status") or {}
    where = f"Deployment {metadata['namespace']}/{metadata['name']}"
    wanted = spec.get("replicas", 1)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return f"{where} is not rolled out yet"
    updated = status.get("updatedReplicas", 0)
    ready = min(updated, status.get("availableReplicas", 0))
    if ready >= wanted:
        # Until these are deleted, they may be the available ones.
        older = status.get("replicas", 0) - updated
        return f"{where}: pods of the version before are still there: {older}" if older > 0 else ""
    conditions = status.get("conditions") or ()
    message = next(
        (
            condition.get("message")
            for condition in conditions
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
        ),
        "",
    )
    return f"{where}: {ready} of {wanted} pods are available" + (f": {message}" if message else "")


def pod_selector(deployment: Object) -> str:
    """The label selector of its pods as a query; empty if it has other selectors than labels."""
    labels = (deployment["spec"].get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def hub_problem(manager: ClusterManager, *, gateway: bool = True) -> str:
    """Why a ClusterManager's hub is not ready; empty if it is. Clusters can join a hub whose gateway is not ready yet."""
    if manager.status.observed_generation < manager.metadata.generation:
        return "the operator has not seen the ClusterManager yet"
    wanted = ((APPLIED, "True"), (REGISTRATION_DEGRADED, "False"), (PROGRESSING, "False"))
    for kind, status in wanted:
        found = condition_of(manager.status.conditions, kind)
        if found is None:
            return f"ClusterManager has no condition {kind} yet"
        if found.status != status:
            return f"{kind} is {found.status}: {found.reason}: {found.message}"
    for kind in (PLACEMENT_DEGRADED, *((GATEWAY_DEGRADED,) if gateway else ())):
        # Earlier operators set no such conditions, and without a gateway there is none about it.
        condition = condition_of(manager.status.conditions, kind)
        if condition is not None and condition.status == "True":
            return f"{kind} is True: {condition.reason}: {condition.message}"
    return ""


def cluster_problem(cluster: ManagedCluster) -> str:
    """Why a cluster is not available; empty if it is."""
    if cluster.metadata.deletion_timestamp:
        return "it is being deleted"
    if not cluster.spec.hub_accepts_client:
        return "it is not accepted"
    accepted = condition_of(cluster.status.conditions, ACCEPTED)
    if accepted is None:
        return "the hub's controller has not dealt with it yet"
    if accepted.status != "True":
        return f"the hub could not accept it: {accepted.reason}: {accepted.message}"
    if not is_true(cluster.status.conditions, JOINED):
        return "its agent has not come back with its certificate yet"
    available = condition_of(cluster.status.conditions, AVAILABLE)
    if available is None:
        return "its agent has not reported yet"
    return "" if available.status == "True" else f"{available.reason}: {available.message}"


async def await_operator(
    client: KubeClient, operator: Operator, *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    async def remaining() -> str:
        try:
            return deployment_problem(await client.get(DEPLOYMENTS, operator.name, OPERATOR_NAMESPACE))
        except NotFound:
            return f"there is no Deployment {OPERATOR_NAMESPACE}/{operator.name}"

    await wait(f"operator {operator.name}", remaining, within=within, progress=progress, clock=clock)


async def await_components(
    client: KubeClient, operator: Operator, image: str, *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    """Wait until what an operator of this image has deployed runs, with the same image unless a spec selects another."""
    kind = CLUSTER_MANAGERS if operator is CLUSTER_MANAGER_OPERATOR else KLUSTERLETS

    async def remaining() -> str:
        for owner in (await client.list(kind)).items:
            for name, namespace in _deployed(owner):
                try:
                    found = await client.get(DEPLOYMENTS, name, namespace)
                except NotFound as error:
                    return str(error)
                if problem := _version_problem(found, owner["spec"], image) or deployment_problem(found):
                    return problem
        return ""

    await wait(f"components of {operator.name}", remaining, within=within, progress=progress, clock=clock)


def _deployed(owner: Object) -> Iterator[tuple[str, str]]:
    """Names and namespaces of the Deployments in the status of a ClusterManager or Klusterlet."""
    for one in (owner.get("status") or {}).get("generations") or ():
        if one["resource"] == DEPLOYMENTS.plural:
            yield one["name"], one["namespace"]


def _version_problem(deployment: Object, spec: Object, image: str) -> str:
    metadata, container = deployment["metadata"], deployment["spec"]["template"]["spec"]["containers"][0]
    chosen = {chosen_image(value, image) for key, value in spec.items() if key.lower().endswith("imagepullspec")}
    if container["image"] in {image, *chosen}:
        return ""
    return f"Deployment {metadata['namespace']}/{metadata['name']} is still of {container['image']}"


async def await_hub(
    client: KubeClient,
    name: str = CLUSTER_MANAGER,
    *,
    within: float,
    gateway: bool = True,
    progress: Progress = SILENT,
    clock: Clock = SYSTEM,
) -> None:
    """Wait until operator, controllers and webhooks run and ManagedClusters are served; and the gateway, if it is included."""

    async def remaining() -> str:
        try:
            if problem := deployment_problem(await client.get(DEPLOYMENTS, CLUSTER_MANAGER, OPERATOR_NAMESPACE)):
                return problem
            manager = await client.get(ClusterManager, name)
        except NotFound as error:
            return str(error)
        return hub_problem(manager, gateway=gateway) or ("" if await is_hub(client) else "ManagedClusters are not served yet")

    await wait("hub", remaining, within=within, progress=progress, clock=clock)


async def await_available(
    client: KubeClient, names: Sequence[str], *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    """Wait until all of them are available."""

    async def remaining() -> str:
        problems = []
        for name in names:
            try:
                problem = cluster_problem(await client.get(ManagedCluster, name))
            except NotFound:
                problem = "there is no ManagedCluster of this name: its agent has not introduced it yet"
            if problem:
                problems.append(f"{name}: {problem}")
        return "; ".join(problems)

    await wait(f"managed cluster {', '.join(names)}", remaining, within=within, progress=progress, clock=clock)
