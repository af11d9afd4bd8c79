"""Applies the desired works and role bindings: missing ones are created, changed ones updated, surplus ones deleted.

Names are reserved for the framework, so an object with such a name without the labels is adopted. The roleRef of a binding is
immutable: then it is deleted and created again. Refusals of the server are returned as text, for the addon's conditions; conflicts
and unreachable servers are raised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping

from muster.addon.framework.owned import OwnedObjects
from muster.addon.framework.role_bindings import RoleBinding
from muster.addon.framework.works import WantedWork
from muster.api.resource import known_fields
from muster.api.work.v1 import ManifestWork
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.client import Conflict, KubeError, Unreachable


async def write_works(
    owned: OwnedObjects[ManifestWork], addon: ObjectKey, wanted: Iterable[WantedWork], surplus: Iterable[ManifestWork]
) -> str:
    present = {ObjectKey(one.metadata.namespace, one.metadata.name): one for one in owned.of(addon)}
    problems = [await _problem(_write_work(owned, addon, one, present.get(one.key))) for one in wanted]
    problems += [await _problem(owned.delete(one)) for one in surplus if not one.metadata.deletion_timestamp]
    return "; ".join(filter(None, problems))


async def _write_work(
    owned: OwnedObjects[ManifestWork], addon: ObjectKey, wanted: WantedWork, present: ManifestWork | None
) -> None:
    there = present or await owned.create(addon, wanted.document())
    # One that is being deleted is created again when it is gone.
    if there is None or there.metadata.deletion_timestamp:
        return
    changed = wanted.changed(there)
    if changed is not None:
        await owned.change(addon, there.document(), changed)


async def write_bindings(
    owned: OwnedObjects[RoleBinding],
    addon: ObjectKey,
    wanted: Mapping[ObjectKey, RoleBinding],
    surplus: Iterable[RoleBinding],
) -> str:
    present = {ObjectKey(one.metadata.namespace, one.metadata.name): one for one in owned.of(addon)}
    # Deletions come first, so that a refused creation does not prevent them.
    problems = [await _problem(owned.delete(one)) for one in surplus]
    problems += [await _problem(_write_binding(owned, addon, one, present.get(key))) for key, one in wanted.items()]
    return "; ".join(filter(None, problems))


async def _write_binding(
    owned: OwnedObjects[RoleBinding], addon: ObjectKey, wanted: RoleBinding, present: RoleBinding | None
) -> None:
    there = present or await owned.create(addon, wanted.document())
    if there is None:
        return
    if there.role_ref != wanted.role_ref:
        await owned.delete(there)
        await owned.create(addon, wanted.document())
    elif not _is_as_wanted(there, wanted):
        await owned.change(addon, there.document(), _laid_over(there, wanted))


def _is_as_wanted(there: RoleBinding, wanted: RoleBinding) -> bool:
    return (
        set(there.subjects) == set(wanted.subjects)
        and wanted.metadata.labels.items() <= there.metadata.labels.items()
        and set(wanted.metadata.owner_references) <= set(there.metadata.owner_references)
    )


def _laid_over(there: RoleBinding, wanted: RoleBinding) -> Object:
    document = there.document()
    labels = {**there.metadata.labels, **wanted.metadata.labels}
    owners = [known_fields(owner_reference) for owner_reference in wanted.metadata.owner_references]
    metadata = {**document["metadata"], "labels": labels, **({"ownerReferences": owners} if owners else {})}
    return {**document, "metadata": metadata, "subjects": [known_fields(subject) for subject in wanted.subjects]}


async def _problem(write: Awaitable[None]) -> str:
    try:
        await write
    except (Conflict, Unreachable):
        raise
    except KubeError as error:
        return str(error)
    return ""
