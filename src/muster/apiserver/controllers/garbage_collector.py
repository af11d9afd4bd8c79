"""The garbage collector: objects whose owners are gone go too; foreground and orphaning deletions are carried out.

An index from owner uid to dependents is kept from the event stream (only objects that have ownerReferences are in it, so most
writes cost one substring search). Decisions are made from current state: a dependent with a living owner only loses its dangling
references; one with none is deleted; an owner waiting in the foreground goes when no dependent blocks it any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from weakref import WeakKeyDictionary

from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.apiserver.objects import Metadata, OwnerReference, metadata, object_key
from muster.apiserver.registry.resource import ServedResource
from muster.store.api import Entry, Event

_MARK = b'"ownerReferences":['
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_DELETING = b'"deletionTimestamp"'
Place = tuple[str, str]
"""(stored resource, key)"""


class GarbageCollector:
    name = "garbage collector"
    resources = None

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._dependents: WeakKeyDictionary[Cluster, dict[str, set[Place]]] = WeakKeyDictionary()
        """cluster → owner uid → places of dependents"""

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        entry, previous = event.entry, event.previous
        index = self._dependents.get(cluster)
        has_owners = _MARK in entry.value
        had_owners = previous is not None and _MARK in previous.value
        if index is None and not has_owners and not had_owners and _DELETING not in entry.value:
            return ()
        return list(self._note(cluster, event, has_owners, had_owners))

    def _note(self, cluster: Cluster, event: Event, has_owners: bool, had_owners: bool) -> Iterator[str]:
        place = (event.resource, event.entry.key)
        if had_owners and event.previous is not None:
            self._unindex(cluster, place, event.previous)
        if event.deleted:
            uid = metadata(event.entry).uid
            for resource, key in self._dependents.get(cluster, {}).get(uid, ()):
                yield f"{resource}|{key}"
            if has_owners or had_owners:
                yield from self._waiting_owners(cluster, metadata(event.entry))
            return
        meta = metadata(event.entry)
        if has_owners:
            self._index(cluster, place, meta)
            yield f"{place[0]}|{place[1]}"
        if had_owners and meta.deletionTimestamp is None and event.previous is not None:
            yield from self._waiting_owners(cluster, metadata(event.previous))
        if (
            meta.deletionTimestamp is not None
            and meta.finalizers
            and (_FOREGROUND in meta.finalizers or _ORPHAN in meta.finalizers)
        ):
            yield f"{place[0]}|{place[1]}"

    def _waiting_owners(self, cluster: Cluster, meta: Metadata) -> Iterator[str]:
        """Owners that may be waiting in the foreground for this dependent."""
        for reference in meta.ownerReferences or ():
            found = self._owner(cluster, reference, meta.namespace)
            if found is not None and _DELETING in found[1].value:
                yield f"{found[0].storage}|{found[1].key}"

    def _index(self, cluster: Cluster, place: Place, meta: Metadata) -> None:
        owners = self._dependents.setdefault(cluster, {})
        for reference in meta.ownerReferences or ():
            owners.setdefault(reference.uid, set()).add(place)

    def _unindex(self, cluster: Cluster, place: Place, entry: Entry) -> None:
        owners = self._dependents.get(cluster, {})
        for reference in metadata(entry).ownerReferences or ():
            places = owners.get(reference.uid)
            if places is not None:
                places.discard(place)
                if not places:
                    del owners[reference.uid]

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        keys = []
        for resource in list(cluster.store.resources(cluster.name)):
            if cluster.store.generation(cluster.name, resource) <= 1:  # nothing but bootstrap objects, which nobody owns
                continue
            for entry in cluster.store.list(cluster.name, resource):
                if _MARK in entry.value:
                    self._index(cluster, (resource, entry.key), metadata(entry))
                    keys.append(f"{resource}|{entry.key}")
                elif _DELETING in entry.value:
                    keys.append(f"{resource}|{entry.key}")
        return keys

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        resource, _, object_name = key.partition("|")
        entry = cluster.entry(resource, object_name)
        row = cluster.resources.by_storage(resource)
        if entry is None or row is None:
            return None
        meta = metadata(entry)
        finalizers = meta.finalizers or []
        if meta.deletionTimestamp is not None:
            if _ORPHAN in finalizers:
                await self._orphan_dependents(cluster, row, meta)
            elif _FOREGROUND in finalizers:
                return await self._finish_foreground(cluster, row, meta)
            return None
        if meta.ownerReferences:
            await self._judge(cluster, row, meta)
        return None

    def _owner(self, cluster: Cluster, reference: OwnerReference, namespace: str) -> tuple[ServedResource, Entry] | None:
        """The owner a reference names, if it lives (same uid); a namespaced owner must be in the dependent's namespace."""
        group, _, version = reference.apiVersion.rpartition("/")
        row = cluster.resources.by_kind(group, version, reference.kind)
        if row is None or (row.namespaced and not namespace):
            return None
        entry = cluster.entry(row.storage, object_key(namespace if row.namespaced else "", reference.name))
        if entry is None or metadata(entry).uid != reference.uid:
            return None
        return row, entry

    def _unresolvable(self, cluster: Cluster, reference: OwnerReference, namespace: str) -> bool:
        """Kinds nobody serves, and namespaced owners of cluster-scoped objects, prove nothing: such a dependent stays."""
        group, _, version = reference.apiVersion.rpartition("/")
        row = cluster.resources.by_kind(group, version, reference.kind)
        return row is None or (row.namespaced and not namespace)

    async def _judge(self, cluster: Cluster, row: ServedResource, meta: Metadata) -> None:
        solid: list[OwnerReference] = []
        waiting: list[OwnerReference] = []
        gone: list[OwnerReference] = []
        for reference in meta.ownerReferences or ():
            if self._unresolvable(cluster, reference, meta.namespace):
                return
            found = self._owner(cluster, reference, meta.namespace)
            if found is None:
                gone.append(reference)
            else:
                owner = metadata(found[1])
                foreground = owner.deletionTimestamp is not None and _FOREGROUND in (owner.finalizers or ())
                (waiting if foreground else solid).append(reference)
        if not gone and not waiting:
            return
        if solid:
            lost = {reference.uid for reference in (*gone, *waiting)}
            await self._drop_references(cluster, row, meta, lost)
            return
        policy = "Background"
        if waiting and self._dependents.get(cluster, {}).get(meta.uid):
            policy = "Foreground"
        options = {"preconditions": {"uid": meta.uid}, "propagationPolicy": policy}
        await self._attempt(self._context.client(cluster).delete(_path(row, meta), options))

    async def _drop_references(self, cluster: Cluster, row: ServedResource, meta: Metadata, uids: set[str]) -> None:
        current = cluster.read(row.storage, object_key(meta.namespace, meta.name))
        if current is None:
            return
        kept = [r for r in current["metadata"].get("ownerReferences", ()) if r["uid"] not in uids]
        # For the version that was read: a reference that another server has just stored must not be written away.
        version = {"uid": meta.uid, "resourceVersion": current["metadata"]["resourceVersion"]}
        patch = {"metadata": {**version, "ownerReferences": kept or None}}
        await self._attempt(self._context.client(cluster).merge(_path(row, meta), patch))

    async def _orphan_dependents(self, cluster: Cluster, row: ServedResource, meta: Metadata) -> None:
        for resource, key in list(self._dependents.get(cluster, {}).get(meta.uid, ())):
            entry, dependent_row = cluster.entry(resource, key), cluster.resources.by_storage(resource)
            if entry is not None and dependent_row is not None:
                await self._drop_references(cluster, dependent_row, metadata(entry), {meta.uid})
        await self._remove_finalizer(cluster, row, meta, _ORPHAN)

    async def _finish_foreground(self, cluster: Cluster, row: ServedResource, meta: Metadata) -> float | None:
        blocking = False
        for resource, key in list(self._dependents.get(cluster, {}).get(meta.uid, ())):
            entry, dependent_row = cluster.entry(resource, key), cluster.resources.by_storage(resource)
            if entry is None or dependent_row is None:
                continue
            dependent = metadata(entry)
            references = [r for r in dependent.ownerReferences or () if r.uid == meta.uid]
            if dependent.deletionTimestamp is None:
                await self._judge(cluster, dependent_row, dependent)
            still_there = cluster.entry(resource, key) is not None
            blocking = blocking or (still_there and any(r.blockOwnerDeletion for r in references))
        if not blocking:
            await self._remove_finalizer(cluster, row, meta, _FOREGROUND)
        return None

    async def _remove_finalizer(self, cluster: Cluster, row: ServedResource, meta: Metadata, finalizer: str) -> None:
        current = cluster.read(row.storage, object_key(meta.namespace, meta.name))
        if current is None or current["metadata"]["uid"] != meta.uid:
            return
        kept = [f for f in current["metadata"].get("finalizers", ()) if f != finalizer]
        patch = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"], "finalizers": kept or None}}
        await self._attempt(self._context.client(cluster).merge(_path(row, meta), patch))

    @staticmethod
    async def _attempt(call: Awaitable[object]) -> None:
        """Somebody else may have deleted or changed the object first; the next event brings it back if need be."""
        try:
            await call
        except ApiError as error:
            if error.code != 404 and error.reason != "Conflict":
                raise


def _path(row: ServedResource, meta: Metadata) -> str:
    return object_path(row.api_version, row.plural, meta.namespace, meta.name)
