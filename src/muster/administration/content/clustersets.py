"""Cluster sets: create, assign clusters and namespaces, bind to namespaces, and delete.

Each function returns lines about what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.administration.errors import AdministrationError, Refused
from muster.administration.hubs import CLUSTERADM
from muster.api import MalformedObject
from muster.api.cluster.v1beta2 import EXCLUSIVE, ManagedClusterSet
from muster.kube.names import dns1123_label, dns1123_subdomain
from muster.registration.kinds import CLUSTER_SET_BINDINGS, CLUSTER_SETS, MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_SET_LABEL
from muster.runtime.client import AlreadyExists, KubeClient, NotFound, retry_on_conflict
from muster.runtime.client.builtin import NAMESPACES

KEPT: Final = ("default", "global")
"""Sets that the hub creates again when they are deleted."""


async def create(client: KubeClient, name: str) -> str:
    if problems := dns1123_subdomain(name):
        raise AdministrationError(f"{name!r} cannot name a clusterset: {problems[0]}")
    try:
        await client.create(
            CLUSTER_SETS,
            {"apiVersion": CLUSTER_SETS.api_version, "kind": CLUSTER_SETS.kind, "metadata": {"name": name}, "spec": {}},
            manager=CLUSTERADM,
        )
    except AlreadyExists:
        return f"Clusterset {name} is already created"
    return f"Clusterset {name} is created"


async def delete(client: KubeClient, name: str) -> str:
    if name in KEPT:
        raise Refused(f"Clusterset {name} can not be deleted", "the hub keeps it by itself")
    bound = [
        one["metadata"]["namespace"]
        for one in (await client.list(CLUSTER_SET_BINDINGS)).items
        if (one.get("spec") or {}).get("clusterSet") == name
    ]
    if bound:
        raise Refused(
            f"Clusterset {name} still bind to a namespace: {', '.join(sorted(bound))}",
            f"unbind it with clusterset unbind {name} --namespace {sorted(bound)[0]}",
        )
    try:
        await client.delete(CLUSTER_SETS, name)
    except NotFound:
        return f"Clusterset {name} not found or is already deleted"
    return f"Clusterset {name} is deleted"


async def bind(client: KubeClient, name: str, namespace: str) -> str:
    await _found(client, name)
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        raise AdministrationError(f"--namespace: there is no namespace {namespace}", "create it first") from None
    document = {
        "apiVersion": CLUSTER_SET_BINDINGS.api_version,
        "kind": CLUSTER_SET_BINDINGS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterSet": name},
    }
    try:
        await client.create(CLUSTER_SET_BINDINGS, document, manager=CLUSTERADM)
    except AlreadyExists:
        return f"Clusterset {name} is already bound to Namespace {namespace}"
    return f"Clusterset {name} is bound to Namespace {namespace}"


async def unbind(client: KubeClient, name: str, namespace: str) -> str:
    try:
        await client.delete(CLUSTER_SET_BINDINGS, name, namespace)
    except NotFound:
        return f"Clusterset {name} is not bound to Namespace {namespace}"
    return f"Clusterset {name} is unbind from namespace {namespace}"


async def set_clusters(client: KubeClient, name: str, clusters: Sequence[str]) -> list[str]:
    """Raises before any write if one of the clusters does not exist."""
    cluster_set = await _found(client, name)
    if cluster_set.spec.cluster_selector.selector_type not in ("", EXCLUSIVE):
        raise Refused(f"Clusterset {name} chooses its clusters by their labels", "label the clusters instead")
    now = {cluster: await _set_of(client, cluster) for cluster in dict.fromkeys(clusters)}
    messages = []
    for cluster, before in now.items():
        if before == name:
            messages.append(f"Cluster {cluster} is already in Clusterset {name}")
            continue
        patch = {"metadata": {"labels": {CLUSTER_SET_LABEL: name}}}
        await client.patch(MANAGED_CLUSTERS, cluster, patch, manager=CLUSTERADM)
        origin = f", from ClusterSet {before}" if before else ""
        messages.append(f"Cluster {cluster} is set{origin} to Clusterset {name}")
    return messages


async def add_namespaces(client: KubeClient, name: str, namespaces: Sequence[str]) -> list[str]:
    """Add managed namespaces, which every cluster of the set gets."""
    for namespace in namespaces:
        if problems := dns1123_label(namespace):
            raise AdministrationError(f"--namespaces: {namespace!r} cannot name a namespace: {problems[0]}")
    # The hub's controllers write to sets, too.
    return await retry_on_conflict(lambda: _add_namespaces(client, name, namespaces))


async def _add_namespaces(client: KubeClient, name: str, namespaces: Sequence[str]) -> list[str]:
    cluster_set = await _found(client, name)
    have = [managed_namespace.name for managed_namespace in cluster_set.spec.managed_namespaces]
    new = [namespace for namespace in dict.fromkeys(namespaces) if namespace not in have]
    if not new:
        return [f"All specified namespaces already exist in Clusterset {name}"]
    # With the resourceVersion, so that a concurrent addition is not lost.
    version = cluster_set.metadata.resource_version
    listed = [*cluster_set.document()["spec"].get("managedNamespaces", ()), *({"name": one} for one in new)]
    patch = {"metadata": {"resourceVersion": version}, "spec": {"managedNamespaces": listed}}
    await client.patch(CLUSTER_SETS, name, patch, manager=CLUSTERADM)
    return [f"Added {len(new)} managed namespace(s) to Clusterset {name}: {', '.join(new)}"]


async def _found(client: KubeClient, name: str) -> ManagedClusterSet:
    try:
        return await client.get(ManagedClusterSet, name)
    except NotFound:
        raise AdministrationError(f"there is no clusterset {name}", f"make it with clusterset create {name}") from None
    except MalformedObject as error:
        raise AdministrationError(f"clusterset {name}: {error}") from None


async def _set_of(client: KubeClient, cluster: str) -> str:
    try:
        found = await client.get(MANAGED_CLUSTERS, cluster)
    except NotFound:
        raise AdministrationError(f"--clusters: there is no managed cluster {cluster}", "see get clusters") from None
    return str((found["metadata"].get("labels") or {}).get(CLUSTER_SET_LABEL, ""))
