"""Addons on clusters: switch them on and off, one ManagedClusterAddOn for each addon and cluster.

Objects are written as v1alpha1, which every hub serves and which alone has the namespace that the addon's agent is installed in.
Configuration objects are applied first, and the addons refer to them. Each addon on each cluster is dealt with by itself, and what
went wrong with one is told and stops no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.administration.errors import AdministrationError
from muster.administration.hubs import CLUSTERADM
from muster.api import Document
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, ClusterManagementAddOn, ManagedClusterAddOn
from muster.machinery.objects import GVR
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import KubeClient, KubeError, NotFound, Unreachable, served

ADDONS: Final = served(ManagedClusterAddOn)
CLUSTER_ADDONS: Final = served(ClusterManagementAddOn)


@dataclass(frozen=True)
class AddonSettings:
    namespace: str = DEFAULT_NAMESPACE
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    configs: tuple[Document, ...] = ()
    """Configuration objects, to be applied and referred to."""


@dataclass(frozen=True)
class Outcome:
    addon: str
    cluster: str
    there: bool = True
    """Whether there is, or when switching off was, one."""
    error: KubeError | None = None
    """Why it could not be done."""


async def enable(client: KubeClient, names: Sequence[str], clusters: Sequence[str], settings: AddonSettings) -> list[Outcome]:
    """Raises AdministrationError before anything is written where an addon is unknown or a configuration makes no sense."""
    for name in names:
        await _require_addon(client, name)
    configs = [(await _kind_of(client, one), one) for one in settings.configs]
    for resource, document in configs:
        await client.apply(resource, document, manager=CLUSTERADM)
    references = [_reference(resource, document) for resource, document in configs]
    return [await _enable(client, name, cluster, settings, references) for cluster in clusters for name in names]


async def _require_addon(client: KubeClient, name: str) -> None:
    try:
        await client.get(CLUSTER_ADDONS, name)
    except NotFound:
        raise AdministrationError(
            f"--names: enabling the unknown addon {name} is not supported", "see addon list; the addon's own manager brings it"
        ) from None


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
    place = {"namespace": metadata["namespace"]} if resource.namespaced else {}
    return {"group": resource.group, "resource": resource.plural, "name": metadata["name"], **place}


async def _enable(client: KubeClient, name: str, cluster: str, settings: AddonSettings, references: Sequence[Document]) -> Outcome:
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
        return Outcome(name, cluster, error=error)
    return Outcome(name, cluster)


async def disable(client: KubeClient, names: Sequence[str], clusters: Sequence[str]) -> list[Outcome]:
    return [await _disable(client, name, cluster) for cluster in clusters for name in names]


async def _disable(client: KubeClient, name: str, cluster: str) -> Outcome:
    try:
        found = await client.get(ADDONS, name, cluster)
        await client.delete(ADDONS, name, cluster, uid=found["metadata"]["uid"])
    except NotFound:
        return Outcome(name, cluster, there=False)
    except Unreachable:
        raise
    except KubeError as error:
        return Outcome(name, cluster, error=error)
    return Outcome(name, cluster)


async def all_clusters(client: KubeClient) -> list[str]:
    return sorted(one["metadata"]["name"] for one in (await client.list(MANAGED_CLUSTERS)).items)
