"""Keeping a list of objects on a `Ground`: all that is wanted is there under the owner's label, and nothing else of the owner's is.

`apply_owned` is for a step of an installation: it fails as a whole, and it fails for objects that are on their way out too, since
nothing can be made of those. `prune` is for its end, when everything that is wanted is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from muster.machinery.objects import GVR, Object, ObjectKey, key_of
from muster.operator.applying import ApplyFailed, Place, Wanted, checked
from muster.operator.ground import Ground
from muster.operator.reporting import StepFailed
from muster.runtime.client import KubeError, NotFound
from muster.runtime.install import InstallError


@contextmanager
def step(reason: str) -> Iterator[None]:
    """Whatever hinders it becomes StepFailed with this reason."""
    try:
        yield
    except (ApplyFailed, KubeError, InstallError, OSError) as error:
        raise StepFailed(reason, str(error)) from error


async def apply_owned(ground: Ground, documents: Sequence[Wanted]) -> list[Object]:
    """Raises ApplyFailed, and InstallError for what is being deleted."""
    results = checked(await ground.applier.apply(documents))
    leaving = [f"{obj['kind']} {key_of(obj)}" for obj in results if obj["metadata"].get("deletionTimestamp")]
    if leaving:
        raise InstallError(f"being deleted, and made again when gone: {', '.join(leaving)}")
    return results


async def prune(ground: Ground, kinds: Sequence[GVR], label: str, owner: str, wanted: Collection[Place]) -> None:
    """Delete what carries the owner's label and is wanted no longer; nothing while the caches are incomplete."""
    if not ground.synced:
        return
    for resource in kinds:
        for found in ground.all(resource):
            mine = found.labels.get(label) == owner
            if mine and Place(resource, found.name, found.namespace) not in wanted:
                await _delete(ground, resource, found.key, found.uid)


async def _delete(ground: Ground, resource: GVR, key: ObjectKey, uid: str) -> None:
    try:
        await ground.client.delete(resource, key.name, key.namespace, uid=uid)
    except NotFound:
        return


def established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
