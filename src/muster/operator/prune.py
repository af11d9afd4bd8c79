"""Applies a list of objects on a `TargetCluster` under the owner's label, and deletes the owner's other objects.

`apply_owned` is for a step of an installation: it fails as a whole, also for objects that are being deleted. `prune` is for its
end, when all desired objects are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from muster.machinery.objects import GVR, Object, ObjectKey, key_of
from muster.operator.applier import ApplyFailed, ObjectRef, Wanted, checked
from muster.operator.conditions import StepFailed
from muster.operator.target_cluster import TargetCluster
from muster.runtime.client import KubeError, NotFound
from muster.runtime.install import InstallError


@contextmanager
def step(reason: str) -> Iterator[None]:
    """Errors of the step become StepFailed with this reason."""
    try:
        yield
    except (ApplyFailed, KubeError, InstallError, OSError) as error:
        raise StepFailed(reason, str(error)) from error


async def apply_owned(cluster: TargetCluster, documents: Sequence[Wanted], recorded: Collection[ObjectRef] = ()) -> list[Object]:
    """Raises ApplyFailed, and InstallError for objects that are being deleted. `recorded`: see Applier."""
    results = checked(await cluster.applier.apply(documents, recorded))
    leaving = [f"{obj['kind']} {key_of(obj)}" for obj in results if obj["metadata"].get("deletionTimestamp")]
    if leaving:
        raise InstallError(f"being deleted, and made again when gone: {', '.join(leaving)}")
    return results


async def prune(cluster: TargetCluster, kinds: Sequence[GVR], label: str, owner: str, wanted: Collection[ObjectRef]) -> None:
    """Delete objects with the owner's label that are not wanted; nothing while the caches are not synced."""
    if not cluster.synced:
        return
    for resource in kinds:
        for found in cluster.all(resource):
            mine = found.labels.get(label) == owner
            if mine and ObjectRef(resource, found.name, found.namespace) not in wanted:
                await _delete(cluster, resource, found.key, found.uid)


async def prune_recorded(cluster: TargetCluster, unwanted: Iterable[ObjectRef], label: str, owner: str) -> None:
    """Delete objects that an earlier operator has recorded in the status, if they have its label."""
    for ref in unwanted:
        try:
            found = await cluster.client.get(ref.resource, ref.name, ref.namespace)
        except NotFound:
            continue
        if (found["metadata"].get("labels") or {}).get(label) == owner:
            await _delete(cluster, ref.resource, key_of(found), found["metadata"]["uid"])


async def _delete(cluster: TargetCluster, resource: GVR, key: ObjectKey, uid: str) -> None:
    try:
        await cluster.client.delete(resource, key.name, key.namespace, uid=uid)
    except NotFound:
        return


def established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
