"""Addons on clusters: switch them on and off, one ManagedClusterAddOn for each addon and cluster.

Objects are written as v1alpha1, which every hub serves and which alone has the namespace that the addon's agent is installed in.
Configuration objects are applied first, and the addons refer to them. Each addon on each cluster is dealt with by itself, and what
went wrong with one is told and stops no other.
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
    """Configuration objects, to be applied and referred to."""


@dataclass(frozen=True)
class AddonResult:
    addon: str
    cluster: str
    there: bool = True
    """Whether there is, or when switching off was, one."""
    error: KubeError | None = None
    """Why it could not be done."""


async def enable(client: KubeClient, names: Sequence[str], clusters: Sequence[str], settings: AddonSettings) -> list[AddonResult]:
    """With those that they require, where these are not enabled yet. Raises AdministrationError before anything is written where an
    addon is unknown or a configuration makes no sense."""
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
    """Gives references to them. Raises AdministrationError before anything is written where one makes no sense."""
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
    """Where objects like this one are served. Raises AdministrationError."""
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
    """An addon on a cluster with what it depends on, as far as the caller may look."""
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
    """Those of an addon on a cluster; none where the caller may not look."""
    try:
        return (await client.list(SIGNING_REQUESTS, label_selector=f"{ADDON_LABEL}={name},{CLUSTER_LABEL}={cluster}")).items
    except Forbidden:
        return ()


async def missing_of(client: KubeClient, name: str, cluster: str) -> str:
    """What an addon on a cluster wants until it is available; empty when it is."""
    try:
        missing = missing_step(await view_of(client, await client.get(ManagedClusterAddOn, name, cluster)))
    except NotFound:
        missing = Missing("installation", "it is not there, or not any more", "see get addons")
    return "" if missing is None else f"{name} on {cluster}: {missing}"


async def await_enabled(
    client: KubeClient, outcomes: Sequence[AddonResult], *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    """Until they are available. Raises TookTooLong, which names the step that is missing."""
    if is_dry_run(client):
        return

    async def remaining() -> str:
        problems = [await missing_of(client, outcome.addon, outcome.cluster) for outcome in outcomes]
        return "; ".join(filter(None, problems))

    await wait("addons", remaining, within=within, progress=progress, clock=clock)


async def await_disabled(
    client: KubeClient, outcomes: Sequence[AddonResult], *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    """Until they are gone, with what they had on the clusters."""
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
