"""Creates works: a ManifestWork for each of some clusters, for each cluster of a Placement, or a ManifestWorkReplicaSet.

Works created for a Placement have an annotation that names it, so that a repeated call, after the Placement has selected other
clusters, finds the works to delete; a work of the same name without the annotation is left alone. Each cluster is handled
separately, and a failure of one is reported and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from muster.administration.content.work_status import one_line, problem_of
from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError
from muster.administration.hubs import CLUSTERADM, MADE_BY
from muster.administration.progress import SILENT, Progress, wait
from muster.api import Document, condition_of
from muster.api.cluster.v1beta1 import PLACEMENT_LABEL, Placement, PlacementDecision
from muster.api.work.v1 import ManifestWork
from muster.api.work.v1alpha1 import ManifestWorkReplicaSet
from muster.kube.names import dns1123_subdomain
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.runtime.client import Forbidden, KubeClient, KubeError, NotFound, Unreachable, served
from muster.work.names import DELETING

PLACEMENTS: Final = served(Placement)
DECISIONS: Final = served(PlacementDecision)
REPLICA_SETS: Final = served(ManifestWorkReplicaSet)
PLACED_BY: Final = "open-cluster-management.io/placement"
"""Annotation of a work: the Placement for which it was created."""
_EXACT: Final = "workload"
_NO_PARTS: Final[Mapping[str, Any]] = {}


class Done(Enum):
    CREATED = "create"
    UPDATED = "update"
    DELETED = "delete"
    UNCHANGED = "keep"
    MISSING = "miss"
    FAILED = "fail"


@dataclass(frozen=True)
class WorkResult:
    """The result of a work in one namespace: a cluster's, or that of a ManifestWorkReplicaSet."""

    target: str
    done: Done
    error: Exception | None = None
    """Why it failed."""


def check_name(name: str) -> None:
    if problems := dns1123_subdomain(name):
        raise AdministrationError(f"work {name!r}: {problems[0]}")


def parse_placement(text: str) -> ObjectKey:
    namespace, separator, name = text.partition("/")
    if not separator or not namespace or not name or "/" in name:
        raise AdministrationError(f"--placement: {text!r} is not <namespace>/<name>")
    return ObjectKey(namespace, name)


async def chosen_clusters(client: KubeClient, placement: ObjectKey) -> list[str]:
    """The clusters in the decisions of a Placement. Raises AdministrationError if it does not exist."""
    try:
        await client.get(PLACEMENTS, placement.name, placement.namespace)
    except NotFound:
        raise AdministrationError(f"--placement: there is no Placement {placement}") from None
    found = await client.list(DECISIONS, placement.namespace, label_selector=f"{PLACEMENT_LABEL}={placement.name}")
    decided = [one for item in found.items for one in (item.get("status") or {}).get("decisions") or ()]
    return sorted({str(one["clusterName"]) for one in decided})


async def create_works(
    client: KubeClient,
    name: str,
    manifests: Sequence[Document],
    clusters: Sequence[str],
    *,
    placement: ObjectKey | None = None,
    overwrite: bool = False,
    parts: Mapping[str, Any] = _NO_PARTS,
) -> list[WorkResult]:
    """Create one in each cluster; with a Placement and `overwrite`, delete those on other clusters that were created for that
    Placement. `parts` are fields of the spec beside the manifests.
    """
    check_name(name)
    spec = {"workload": {"manifests": list(manifests)}, **parts}
    outcomes = [await _guarded(cluster, _create(client, name, spec, cluster, placement, overwrite)) for cluster in clusters]
    if placement is not None and overwrite:
        for cluster in await _other_clusters(client, name, clusters, placement):
            outcomes.append(await _guarded(cluster, _delete(client, MANIFEST_WORKS, name, cluster)))
    return outcomes


async def _guarded(target: str, act: Awaitable[Done]) -> WorkResult:
    try:
        return WorkResult(target, await act)
    except Unreachable:
        raise
    except (KubeError, AdministrationError) as error:
        return WorkResult(target, Done.FAILED, error)


async def _create(
    client: KubeClient, name: str, spec: Document, cluster: str, placement: ObjectKey | None, overwrite: bool
) -> Done:
    try:
        found = await client.get(MANIFEST_WORKS, name, cluster)
    except NotFound:
        await require_cluster(client, cluster)
        marks: Document = {"labels": {MADE_BY: CLUSTERADM}}
        if placement is not None:
            marks["annotations"] = {PLACED_BY: str(placement)}
        body = {"metadata": {"name": name, "namespace": cluster, **marks}, "spec": spec}
        await client.create(MANIFEST_WORKS, _whole(MANIFEST_WORKS, body), cluster)
        return Done.CREATED
    if found["metadata"].get("deletionTimestamp"):
        problem = f"work {name} in cluster {cluster} is being deleted"
        raise AdministrationError(problem, f"wait until it is gone: delete work {name} --clusters {cluster} --wait")
    if not overwrite:
        raise AdministrationError(f"work {name} in cluster {cluster} already exists", "replace its manifests with --overwrite")
    return await _overwrite(client, MANIFEST_WORKS, found, spec)


async def _overwrite(client: KubeClient, resource: GVR, found: Object, spec: Document) -> Done:
    """Other fields of the spec stay as they are, and concurrent writes of the status do not conflict."""
    if _has_values(found.get("spec") or {}, spec):
        return Done.UNCHANGED
    metadata = found["metadata"]
    patch = {"metadata": {"uid": metadata["uid"]}, "spec": spec}
    await client.patch(resource, metadata["name"], patch, metadata["namespace"])
    return Done.UPDATED


def _has_values(found: Any, wanted: Any) -> bool:
    """Whether all of `wanted` is present, and beside it only defaults of the server; manifests get no defaults."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(
            found.get(key) == value if key == _EXACT else _has_values(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_has_values, found, wanted))
    return bool(found == wanted)


async def require_cluster(client: KubeClient, cluster: str) -> None:
    """A user who may write works for a cluster need not be allowed to read the ManagedCluster: then the cluster is assumed to
    exist. Raises AdministrationError.
    """
    try:
        await client.get(MANAGED_CLUSTERS, cluster)
    except NotFound:
        raise AdministrationError(f"there is no ManagedCluster {cluster}", "see get clusters") from None
    except Forbidden:
        return


def _whole(resource: GVR, body: Document) -> Document:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


async def _other_clusters(client: KubeClient, name: str, clusters: Iterable[str], placement: ObjectKey) -> list[str]:
    found = await client.list(MANIFEST_WORKS, label_selector=f"{MADE_BY}={CLUSTERADM}")
    placed = [
        one["metadata"]["namespace"]
        for one in found.items
        if one["metadata"]["name"] == name and (one["metadata"].get("annotations") or {}).get(PLACED_BY) == str(placement)
    ]
    return sorted(set(placed) - set(clusters))


async def create_replica_set(
    client: KubeClient,
    name: str,
    manifests: Sequence[Document],
    placement: ObjectKey,
    *,
    overwrite: bool = False,
    parts: Mapping[str, Any] = _NO_PARTS,
) -> WorkResult:
    """The hub's controller creates and deletes the works. Raises AdministrationError and the client's errors."""
    check_name(name)
    try:
        await client.get(PLACEMENTS, placement.name, placement.namespace)
    except NotFound:
        raise AdministrationError(f"--placement: there is no Placement {placement}") from None
    template = {"workload": {"manifests": list(manifests)}, **parts}
    try:
        found = await client.get(REPLICA_SETS, name, placement.namespace)
    except NotFound:
        spec = {"manifestWorkTemplate": template, "placementRefs": [{"name": placement.name}]}
        body = {"metadata": {"name": name, "namespace": placement.namespace, "labels": {MADE_BY: CLUSTERADM}}, "spec": spec}
        await client.create(REPLICA_SETS, _whole(REPLICA_SETS, body), placement.namespace)
        return WorkResult(placement.namespace, Done.CREATED)
    if not overwrite:
        where = f"ManifestWorkReplicaSet {placement.namespace}/{name}"
        raise AdministrationError(f"{where} already exists", "replace its manifests with --overwrite")
    old = (found.get("spec") or {}).get("manifestWorkTemplate") or {}
    return WorkResult(
        placement.namespace, await _overwrite(client, REPLICA_SETS, found, {"manifestWorkTemplate": {**old, **template}})
    )


async def delete_works(client: KubeClient, name: str, clusters: Sequence[str], *, force: bool = False) -> list[WorkResult]:
    """`force`: do not wait until the agents delete the applied objects, and leave these in place."""
    return [await _guarded(cluster, _delete(client, MANIFEST_WORKS, name, cluster, force)) for cluster in clusters]


async def delete_replica_set(client: KubeClient, name: str, namespace: str) -> WorkResult:
    return await _guarded(namespace, _delete(client, REPLICA_SETS, name, namespace))


async def _delete(client: KubeClient, resource: GVR, name: str, namespace: str, force: bool = False) -> Done:
    try:
        found = await client.get(resource, name, namespace)
        await client.delete(resource, name, namespace, uid=found["metadata"]["uid"])
        if force and found["metadata"].get("finalizers"):
            await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
    except NotFound:
        return Done.MISSING
    return Done.DELETED


async def await_works(
    client: KubeClient, name: str, clusters: Sequence[str], *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    """Wait until they are applied and available on all clusters."""
    if is_dry_run(client):
        return

    async def remaining() -> str:
        works = [(cluster, await client.get(ManifestWork, name, cluster)) for cluster in clusters]
        problems = [(cluster, problem_of(work)) for cluster, work in works]
        return "; ".join(f"{cluster}: {problem}" for cluster, problem in problems if problem)

    await wait(f"work {name}", remaining, within=within, progress=progress, clock=clock)


async def await_works_gone(
    client: KubeClient, name: str, clusters: Sequence[str], *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> None:
    if is_dry_run(client):
        return

    async def remaining() -> str:
        held = [cluster + remaining for cluster in clusters if (remaining := await _remains(client, name, cluster)) is not None]
        return f"what was applied is still there in {', '.join(held)}" if held else ""

    await wait(f"work {name}", remaining, within=within, progress=progress, clock=clock)


async def _remains(client: KubeClient, name: str, cluster: str) -> str | None:
    """The agent's status of a work that is being deleted; None once it is deleted."""
    try:
        work = await client.get(ManifestWork, name, cluster)
    except NotFound:
        return None
    going = condition_of(work.status.conditions, DELETING)
    return f" ({one_line(going.message)})" if going is not None and going.status == "True" else ""
