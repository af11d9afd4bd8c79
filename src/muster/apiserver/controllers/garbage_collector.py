"""The garbage collector: deletes objects whose owners are gone, and carries out foreground and orphaning deletion. Follows
`k8s.io/kubernetes/pkg/controller/garbagecollector`.

An index from owner uid to dependents is maintained from the store's events. Only objects with ownerReferences are in it, so most
writes cost one substring search. Decisions use the current state: a dependent with an existing owner only loses its dangling
references, one without is deleted, and an owner in foreground deletion is removed when no dependent blocks it any longer.
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

_OWNERS_MARKER = b'"ownerReferences":['
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_DELETION_MARKER = b'"deletionTimestamp"'
ObjectRef = tuple[str, str]
"""(stored resource, key)"""


class GarbageCollector:
    name = "garbage collector"
    resources = None

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._dependents: WeakKeyDictionary[Cluster, dict[str, set[ObjectRef]]] = WeakKeyDictionary()
        """cluster → owner uid → dependents"""

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        entry, previous = event.entry, event.previous
        index = self._dependents.get(cluster)
        has_owners = _OWNERS_MARKER in entry.value
        had_owners = previous is not None and _OWNERS_MARKER in previous.value
        if index is None and not has_owners and not had_owners and _DELETION_MARKER not in entry.value:
            return ()
        return list(self._process_event(cluster, event, has_owners, had_owners))

    def _process_event(self, cluster: Cluster, event: Event, has_owners: bool, had_owners: bool) -> Iterator[str]:
        ref = (event.resource, event.entry.key)
        if had_owners and event.previous is not None:
            self._unindex(cluster, ref, event.previous)
        if event.deleted:
            uid = metadata(event.entry).uid
            for resource, key in self._dependents.get(cluster, {}).get(uid, ()):
                yield f"{resource}|{key}"
            if has_owners or had_owners:
                yield from self._waiting_owners(cluster, metadata(event.entry))
            return
        meta = metadata(event.entry)
        if has_owners:
            self._index(cluster, ref, meta)
            yield f"{ref[0]}|{ref[1]}"
        if had_owners and meta.deletionTimestamp is None and event.previous is not None:
            yield from self._waiting_owners(cluster, metadata(event.previous))
        if (
            meta.deletionTimestamp is not None
            and meta.finalizers
            and (_FOREGROUND in meta.finalizers or _ORPHAN in meta.finalizers)
        ):
            yield f"{ref[0]}|{ref[1]}"

    def _waiting_owners(self, cluster: Cluster, meta: Metadata) -> Iterator[str]:
        """Owners in foreground deletion that may be waiting for this dependent."""
        for reference in meta.ownerReferences or ():
            found = self._owner(cluster, reference, meta.namespace)
            if found is not None and _DELETION_MARKER in found[1].value:
                yield f"{found[0].storage}|{found[1].key}"

    def _index(self, cluster: Cluster, ref: ObjectRef, meta: Metadata) -> None:
        owners = self._dependents.setdefault(cluster, {})
        for reference in meta.ownerReferences or ():
            owners.setdefault(reference.uid, set()).add(ref)

    def _unindex(self, cluster: Cluster, ref: ObjectRef, entry: Entry) -> None:
        owners = self._dependents.get(cluster, {})
        for reference in metadata(entry).ownerReferences or ():
            refs = owners.get(reference.uid)
            if refs is not None:
                refs.discard(ref)
                if not refs:
                    del owners[reference.uid]

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        keys = []
        for resource in list(cluster.store.resources(cluster.name)):
            if cluster.store.generation(cluster.name, resource) <= 1:  # only bootstrap objects, which have no owners
                continue
            for entry in cluster.store.list(cluster.name, resource):
                if _OWNERS_MARKER in entry.value:
                    self._index(cluster, (resource, entry.key), metadata(entry))
                    keys.append(f"{resource}|{entry.key}")
                elif _DELETION_MARKER in entry.value:
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
                return await self._process_foreground(cluster, row, meta)
            return None
        if meta.ownerReferences:
            await self._attempt_to_delete(cluster, row, meta)
        return None

    def _owner(self, cluster: Cluster, reference: OwnerReference, namespace: str) -> tuple[ServedResource, Entry] | None:
        """The owner that a reference names, if it exists with the same uid. A namespaced owner is looked up in the dependent's
        namespace."""
        group, _, version = reference.apiVersion.rpartition("/")
        row = cluster.resources.by_kind(group, version, reference.kind)
        if row is None or (row.namespaced and not namespace):
            return None
        entry = cluster.entry(row.storage, object_key(namespace if row.namespaced else "", reference.name))
        if entry is None or metadata(entry).uid != reference.uid:
            return None
        return row, entry

    def _is_unresolvable(self, cluster: Cluster, reference: OwnerReference, namespace: str) -> bool:
        """Whether the reference names a kind that is not served, or a namespaced owner of a cluster-scoped object. Such a dependent
        is kept, because it is unknown whether its owner exists."""
        group, _, version = reference.apiVersion.rpartition("/")
        row = cluster.resources.by_kind(group, version, reference.kind)
        return row is None or (row.namespaced and not namespace)

    async def _attempt_to_delete(self, cluster: Cluster, row: ServedResource, meta: Metadata) -> None:
        solid: list[OwnerReference] = []
        waiting: list[OwnerReference] = []
        dangling: list[OwnerReference] = []
        for reference in meta.ownerReferences or ():
            if self._is_unresolvable(cluster, reference, meta.namespace):
                return
            found = self._owner(cluster, reference, meta.namespace)
            if found is None:
                dangling.append(reference)
            else:
                owner = metadata(found[1])
                foreground = owner.deletionTimestamp is not None and _FOREGROUND in (owner.finalizers or ())
                (waiting if foreground else solid).append(reference)
        if not dangling and not waiting:
            return
        if solid:
            lost = {reference.uid for reference in (*dangling, *waiting)}
            await self._drop_references(cluster, row, meta, lost)
            return
        policy = "Background"
        if waiting and self._dependents.get(cluster, {}).get(meta.uid):
            policy = "Foreground"
        options = {"preconditions": {"uid": meta.uid}, "propagationPolicy": policy}
        await self._ignore_conflict(self._context.client(cluster).delete(_path(row, meta), options))

    async def _drop_references(self, cluster: Cluster, row: ServedResource, meta: Metadata, uids: set[str]) -> None:
        current = cluster.read(row.storage, object_key(meta.namespace, meta.name))
        if current is None:
            return
        kept = [r for r in current["metadata"].get("ownerReferences", ()) if r["uid"] not in uids]
        # Only for the version that was read: a reference that another server has just stored must not be lost.
        version = {"uid": meta.uid, "resourceVersion": current["metadata"]["resourceVersion"]}
        patch = {"metadata": {**version, "ownerReferences": kept or None}}
        await self._ignore_conflict(self._context.client(cluster).merge(_path(row, meta), patch))

    async def _orphan_dependents(self, cluster: Cluster, row: ServedResource, meta: Metadata) -> None:
        for resource, key in list(self._dependents.get(cluster, {}).get(meta.uid, ())):
            entry, dependent_row = cluster.entry(resource, key), cluster.resources.by_storage(resource)
            if entry is not None and dependent_row is not None:
                await self._drop_references(cluster, dependent_row, metadata(entry), {meta.uid})
        await self._remove_finalizer(cluster, row, meta, _ORPHAN)

    async def _process_foreground(self, cluster: Cluster, row: ServedResource, meta: Metadata) -> float | None:
        blocking = False
        for resource, key in list(self._dependents.get(cluster, {}).get(meta.uid, ())):
            entry, dependent_row = cluster.entry(resource, key), cluster.resources.by_storage(resource)
            if entry is None or dependent_row is None:
                continue
            dependent = metadata(entry)
            references = [r for r in dependent.ownerReferences or () if r.uid == meta.uid]
            if dependent.deletionTimestamp is None:
                await self._attempt_to_delete(cluster, dependent_row, dependent)
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
        await self._ignore_conflict(self._context.client(cluster).merge(_path(row, meta), patch))

    @staticmethod
    async def _ignore_conflict(call: Awaitable[object]) -> None:
        """Ignore that the object was deleted or changed in the meantime: that is an event, which enqueues it again if needed."""
        try:
            await call
        except ApiError as error:
            if error.code != 404 and error.reason != "Conflict":
                raise


def _path(row: ServedResource, meta: Metadata) -> str:
    return object_path(row.api_version, row.plural, meta.namespace, meta.name)
