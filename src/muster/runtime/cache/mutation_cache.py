"""A cache overlaid with this process's own writes, as client-go's MutationCache: a writer sees its writes before the watch brings
them.

A reconcile that writes is triggered again by its own write, often before every cache has it; with the cache alone it would write
the same again. `record_write` takes the server's response, and `get` returns the newer of the cached version and that response.
Versions are compared as numbers. A response that the watch never confirms (the object was created and deleted while the watch was
interrupted) is forgotten after `CONFIRM_TIMEOUT`, so an error here lasts seconds and costs one needless request.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import orjson

from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object, ObjectKey, key_of
from muster.runtime.cache.informer import Informer
from muster.runtime.cache.store import Snapshot

T = TypeVar("T")
CONFIRM_TIMEOUT = 10.0
"""Seconds for which a response is used without an event of the watch."""


class MutationCache(Generic[T]):
    def __init__(self, informer: Informer[T], *, clock: Clock = SYSTEM) -> None:
        self._informer = informer
        self._clock = clock
        self._own: dict[ObjectKey, tuple[Snapshot | None, str, float]] = {}
        """By key: the server's response (None if the object is gone), its uid, and until when it is used."""
        self._gone: set[str] = set()
        """Uids of objects that the watch has reported as deleted, and for which a response may still come."""

    def get(self, key: ObjectKey) -> T | None:
        snapshot = self.snapshot(key)
        return None if snapshot is None else self._informer.cache.value_of(snapshot)

    def snapshot(self, key: ObjectKey) -> Snapshot | None:
        cached = self._informer.cache.snapshot(key)
        own = self._own.get(key)
        if own is None:
            return cached
        answer, uid, until = own
        if self._clock.monotonic() >= until or _supersedes(cached, answer, uid):
            del self._own[key]
            return cached
        return answer

    def snapshots(self, namespace: str = "") -> list[Snapshot]:
        """All snapshots, of one namespace or of all."""
        keys = dict.fromkeys((*self._informer.cache.all_keys(), *self._own))
        found = [self.snapshot(key) for key in keys if not namespace or key.namespace == namespace]
        return [snapshot for snapshot in found if snapshot is not None]

    def confirm_delete(self, key: ObjectKey, uid: str) -> None:
        """The watch has reported this object as deleted: recorded responses about it are dropped, and later ones ignored. For
        callers that cannot wait for `CONFIRM_TIMEOUT`."""
        own = self._own.get(key)
        if own is not None and own[1] == uid:
            del self._own[key]
        self._gone.add(uid)
        self._clock.call_later(CONFIRM_TIMEOUT, lambda: self._gone.discard(uid))

    def record_write(self, answer: Object) -> T | None:
        """Record the response to a write; returns the value that readers get from now on."""
        snapshot = self._informer.cache.read(orjson.dumps(answer))
        metadata = answer["metadata"]
        # Removal of the last finalizer deletes an object with a deletionTimestamp; a pod first has its grace period.
        gone = bool(metadata.get("deletionTimestamp")) and not _held(metadata)
        if snapshot.uid not in self._gone:
            self._note(snapshot.key, None if gone else snapshot, snapshot.uid)
        return self.get(snapshot.key)

    def record_delete(self, key: ObjectKey, uid: str, answer: Object) -> None:
        """Record the response to the deletion of the object with this uid: the object, if a finalizer or grace period still holds
        it."""
        if answer.get("kind") != "Status" and _held(answer.get("metadata") or {}) and key_of(answer) == key:
            self.record_write(answer)
        else:
            self._note(key, None, uid)

    def _note(self, key: ObjectKey, answer: Snapshot | None, uid: str) -> None:
        now = self._clock.monotonic()
        # Insertion order is the order of age; entries that are not read again are dropped here.
        while self._own and (oldest := next(iter(self._own))) and self._own[oldest][2] <= now:
            del self._own[oldest]
        self._own.pop(key, None)
        self._own[key] = (answer, uid, now + CONFIRM_TIMEOUT)


def _held(metadata: Object) -> bool:
    """Whether an object that is being deleted still exists for a while: by a finalizer, or a pod's grace period."""
    return bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))


def _supersedes(cached: Snapshot | None, answer: Snapshot | None, uid: str) -> bool:
    """Whether the cache has the written version, or a later one."""
    if answer is None:
        return cached is None or cached.uid != uid
    if cached is None:
        return False
    try:
        return int(cached.resource_version) >= int(answer.resource_version)
    except ValueError:
        return True
