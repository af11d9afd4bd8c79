"""Enables and disables addons on clusters: one ManagedClusterAddOn for each addon and cluster.

Objects are written as v1alpha1, which every hub serves and which is the only version with the agent's install namespace.
Configuration objects are applied first, and the addons refer to them. Each addon on each cluster is handled separately, and a
failure of one is reported and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from muster.administration.content.addon_steps import AddonView, Missing, missing_step
from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError
from muster.administration.hubs import CLUSTERADM
from muster.administration.progress import SILENT, Progress, wait
from muster.api import Document
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.addons import ADDON_LABEL
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_LABEL
from muster.runtime.client import Forbidden, Kind, KubeClient, KubeError, NotFound, Unreachable, served
from muster.runtime.client.builtin import SIGNING_REQUESTS

ADDONS: Final = served(ManagedClusterAddOn)
CLUSTER_ADDONS: Final = served(ClusterManagementAddOn)
T = TypeVar("T")


@dataclass(frozen=True)
class AddonSettings:
    namespace: str = DEFAULT_NAMESPACE
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    configs: tuple[Document, ...] = ()
    """Configuration objects to apply and to refer to."""


@dataclass(frozen=True)
class AddonResult:
    addon: str
    cluster: str
    there: bool = True
    """Whether the addon exists, or existed when it was disabled."""
    error: KubeError | None = None
    """Why it failed."""


async def enable(client: KubeClient, names: Sequence[str], clusters: Sequence[str], settings: AddonSettings) -> list[AddonResult]:
    """Enable the addons, with the ones that they require if these are not enabled yet.

    Raises AdministrationError before any write if an addon does not exist or a configuration is invalid.
    """
    from muster.operator.hub_addons import with_required

    wanted = with_required(names)
    for name in wanted:
        await require_addon(client, name)
    references = await apply_configs(client, settings.configs)
    return [
        await _enable(client, name, cluster, settings, references)
        for cluster in clusters
        for name in wanted
        if name in names or not await _is_enabled(client, name, cluster)
    ]


async def _is_enabled(client: KubeClient, name: str, cluster: str) -> bool:
    try:
        await client.get(ADDONS, name, cluster)
    except NotFound:
        return False
    return True


async def apply_configs(client: KubeClient, configs: Sequence[Document]) -> list[Document]:
    """Apply them and return references to them. Raises AdministrationError before any write if one is invalid."""
    found = [(await _kind_of(client, config), config) for config in configs]
    for resource, document in found:
        await client.apply(resource, document, manager=CLUSTERADM)
    return [_reference(resource, document) for resource, document in found]


async def require_addon(client: KubeClient, name: str) -> None:
    try:
        await client.get(CLUSTER_ADDONS, name)
    except NotFound:
        from muster.operator.hub_addons import HUB_ADDONS

        own = f"clusteradm install hub-addon --names {name}"
        remedy = own if name in HUB_ADDONS else "see addon list; the addon's own manager brings it"
        raise AdministrationError(f"--names: enabling the unknown addon {name} is not supported", remedy) from None


async def _kind_of(client: KubeClient, document: Document) -> GVR:
    """The resource that serves objects of this kind. Raises AdministrationError."""
    version, kind = str(document["apiVersion"]), str(document["kind"])
    where = f"--config-file: {kind} {document['metadata']['name']}"
    try:
        listed = await client.api_resources(version)
    except NotFound:
        raise AdministrationError(f"{where}: the hub serves no {version}") from None
    for one in listed:
        if one.kind == kind:
            if one.namespaced and not document["metadata"].get("namespace"):
                raise AdministrationError(f"{where}: metadata.namespace: not set")
            return one
    raise AdministrationError(f"{where}: the hub serves no {kind} of {version}")


def _reference(resource: GVR, document: Document) -> Document:
    metadata = document["metadata"]
    reference_namespace = {"namespace": metadata["namespace"]} if resource.namespaced else {}
    return {"group": resource.group, "resource": resource.plural, "name": metadata["name"], **reference_namespace}


async def _enable(
    client: KubeClient, name: str, cluster: str, settings: AddonSettings, references: Sequence[Document]
) -> AddonResult:
    metadata: dict[str, Any] = {"name": name, "namespace": cluster}
    metadata |= {part: dict(value) for part, value in (("annotations", settings.annotations), ("labels", settings.labels)) if value}
    spec: Document = {"installNamespace": settings.namespace}
    if references:
        spec["configs"] = list(references)
    try:
        await client.get(MANAGED_CLUSTERS, cluster)
        await client.apply(ADDONS, {"metadata": metadata, "spec": spec}, manager=CLUSTERADM)
    except Unreachable:
        raise
    except KubeError as error:
        return AddonResult(name, cluster, error=error)
    return AddonResult(name, cluster)


async def disable(client: KubeClient, names: Sequence[str], clusters: Sequence[str]) -> list[AddonResult]:
    return [await _disable(client, name, cluster) for cluster in clusters for name in names]


async def _disable(client: KubeClient, name: str, cluster: str) -> AddonResult:
    try:
        found = await client.get(ADDONS, name, cluster)
        await client.delete(ADDONS, name, cluster, uid=found["metadata"]["uid"])
    except NotFound:
        return AddonResult(name, cluster, there=False)
    except Unreachable:
        raise
    except KubeError as error:
        return AddonResult(name, cluster, error=error)
    return AddonResult(name, cluster)


async def view_of(client: KubeClient, addon: ManagedClusterAddOn) -> AddonView:
    """An addon on a cluster with what it depends on, as far as the caller may read it."""
    name, cluster = addon.metadata.name, addon.metadata.namespace
    return AddonView(
        addon,
        await _if_there(client, ClusterManagementAddOn, name),
        await _if_there(client, ManagedCluster, cluster),
        await signing_requests(client, cluster, name),
    )


async def _if_there(client: KubeClient, kind: Kind[T], name: str) -> T | None:
    try:
        return await client.get(kind, name)
    except NotFound:
        return None


async def signing_requests(client: KubeClient, cluster: str, name: str) -> Sequence[Document]:
    """The signing requests of an addon on a cluster; none if the caller may not read them."""
    try:
        return (await client.list(SIGNING_REQUESTS, label_selector=f"{ADDON_LABEL}={name},{CLUSTER_LABEL}={cluster}")).items
    except Forbidden:
        return ()


async def missing_of(client: KubeClient, name: str, cluster: str) -> str:
    """What an addon on a cluster lacks to be available; empty if it is."""
    try:
        missing = missing_step(await view_of(client, await client.get(ManagedClusterAddOn, name, cluster)))
    except NotFound:
        missing = Missing("installation", "it is not there, or not any more", "see get addons")
    return "" if missing is None else f"{name} on {cluster}: {missing}"


async def await_enabled(
    client: KubeClient, outcomes: Sequence[AddonResult], *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    """Wait until they are available. Raises TookTooLong, which names the missing step."""
    if is_dry_run(client):
        return

    async def remaining() -> str:
        problems = [await missing_of(client, outcome.addon, outcome.cluster) for outcome in outcomes]
        return "; ".join(filter(None, problems))

    await wait("addons", remaining, within=within, progress=progress, clock=clock)


async def await_disabled(
    client: KubeClient, outcomes: Sequence[AddonResult], *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    """Wait until they are deleted, with their objects on the clusters."""
    if is_dry_run(client):
        return

    async def remaining() -> str:
        held = []
        for outcome in outcomes:
            try:
                found = await client.get(ManagedClusterAddOn, outcome.addon, outcome.cluster)
            except NotFound:
                continue
            missing = missing_step(AddonView(found, None, None)) if found.metadata.deletion_timestamp else None
            held.append(f"{outcome.addon} on {outcome.cluster}" + (f" ({missing})" if missing else " (it has come back)"))
        return f"still there: {', '.join(held)}" if held else ""

    await wait("addons", remaining, within=within, progress=progress, clock=clock)


async def all_clusters(client: KubeClient) -> list[str]:
    return sorted(one["metadata"]["name"] for one in (await client.list(MANAGED_CLUSTERS)).items)
