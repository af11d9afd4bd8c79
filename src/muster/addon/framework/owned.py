"""Objects that controllers have created for ManagedClusterAddOns: indexed by owner, with own writes visible at once.

The objects of one kind are selected by a label and indexed by their addon. A write is visible before the watch reports it, so the
next reconcile sees it; and its event triggers no reconcile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from muster.api.resource import TypedObject
from muster.machinery.clock import Clock
from muster.machinery.objects import Object, ObjectKey, key_of
from muster.runtime.cache import Informer, MutationCache, older
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, NotFound, patch_changes, served

R = TypeVar("R", bound=TypedObject)
_BY_ADDON: Final = "framework-managed-cluster-addon"


def is_echo(version: str, written: str) -> bool:
    """Whether an event is this process's own last write, or an older version. Writes have a resourceVersion, so no other client's
    is in between."""
    return version == written or older(version, written)


class OwnedObjects(Generic[R]):
    def __init__(
        self,
        client: KubeClient,
        kind: type[R],
        informer: Informer[R],
        owner_of: Callable[[R], ObjectKey | None],
        wake: Callable[[ObjectKey], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._kind = kind
        self._resource = served(kind)
        self._owner_of = owner_of
        self._wake = wake
        self._informer = informer
        self._latest: MutationCache[R] = MutationCache(informer, clock=clock)
        self._written: dict[ObjectKey, tuple[ObjectKey, str]] = {}
        """By object: its addon, and the version of this process's last write that no watch has reported yet."""
        informer.cache.add_index(_BY_ADDON, lambda one: [str(owner)] if (owner := owner_of(one)) is not None else [])
        informer.on_change(self._changed)

    def of(self, addon: ObjectKey) -> list[R]:
        known = [
            ObjectKey(one.metadata.namespace, one.metadata.name) for one in self._informer.cache.by_index(_BY_ADDON, str(addon))
        ]
        recent = [key for key, (owner, _) in self._written.items() if owner == addon] if self._written else []
        found = (self._latest.get(key) for key in dict.fromkeys((*known, *recent)))
        return [one for one in found if one is not None]

    async def create(self, addon: ObjectKey, document: Object) -> R | None:
        """Returns the existing object of this name, if there is one: the cache may lack it, or its labels were removed."""
        try:
            answer = await self._client.create(self._resource, document)
        except AlreadyExists:
            key = key_of(document)
            with _gone_is_conflict():
                return self._kind.decode(await self._client.get(self._resource, key.name, key.namespace))
        self._record(addon, answer)
        return None

    async def change(self, addon: ObjectKey, before: Object, after: Object) -> None:
        """Fails if the object was written since it was read. Raises Conflict."""
        with _gone_is_conflict():
            answer = await patch_changes(self._client, self._resource, before, after, optimistic=True)
        if answer is not None:
            self._record(addon, answer)

    async def delete(self, obj: R) -> None:
        metadata = obj.metadata
        key = ObjectKey(metadata.namespace, metadata.name)
        try:
            answer = await self._client.delete(self._resource, metadata.name, metadata.namespace, uid=metadata.uid)
        except NotFound:
            return
        self._latest.record_delete(key, metadata.uid, answer)

    def _record(self, addon: ObjectKey, answer: Object) -> None:
        self._latest.record_write(answer)
        key, version = key_of(answer), str(answer["metadata"]["resourceVersion"])
        cached = self._informer.cache.snapshot(key)
        if cached is None or cached.resource_version != version:
            self._written[key] = (addon, version)

    def _changed(self, old: R | None, new: R | None) -> None:
        side = new if new is not None else old
        assert side is not None, "something changed"
        key = ObjectKey(side.metadata.namespace, side.metadata.name)
        written = self._written.get(key)
        if new is not None and written is not None and is_echo(new.metadata.resource_version, written[1]):
            if new.metadata.resource_version == written[1]:
                del self._written[key]
            return
        self._written.pop(key, None)
        if new is None:
            self._latest.confirm_delete(key, side.metadata.uid)
        owners = {self._owner_of(one) for one in (old, new) if one is not None}
        for owner in owners - {None}:
            assert owner is not None, "taken out"
            self._wake(owner)


@contextmanager
def _gone_is_conflict() -> Iterator[None]:
    """NotFound for a cached object becomes Conflict: it was deleted, which no watch has reported yet."""
    try:
        yield
    except NotFound as gone:
        raise Conflict(409, "Conflict", f"{gone}: deleted meanwhile") from None
