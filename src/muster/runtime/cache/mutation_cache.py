"""A cache together with what this process has written since, as client-go's MutationCache: a writer sees its own writes before the
watch brings them.

A reconcile that writes is woken by its own write, often before every cache shows it; looking at the cache alone it would write
the same again. `record_write` takes the server's answer, and `get` gives whichever is newer, the cache's version or that answer.
Versions are compared as numbers. What the watch never confirms (the object came and went while the watch was being taken up
again) is forgotten after `CONFIRM_TIMEOUT`, so an error here lasts seconds and costs one needless request.
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
"""Seconds for which an answer counts while the watch says nothing about the object."""


class MutationCache(Generic[T]):
    def __init__(self, informer: Informer[T], *, clock: Clock = SYSTEM) -> None:
        self._informer = informer
        self._clock = clock
        self._own: dict[ObjectKey, tuple[Snapshot | None, str, float]] = {}
        """By key: what the server answered (None when the object is gone), its uid, and until when that counts."""
        self._gone: set[str] = set()
        """Uids of objects that the watch has told to be gone, and about which an answer may still come."""

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
        """Everything, of one namespace or of all."""
        keys = dict.fromkeys((*self._informer.cache.all_keys(), *self._own))
        found = [self.snapshot(key) for key in keys if not namespace or key.namespace == namespace]
        return [snapshot for snapshot in found if snapshot is not None]

    def confirm_delete(self, key: ObjectKey, uid: str) -> None:
        """The watch has told that this very object is gone: answers about it no longer count, nor does one that is still on its way
        from before. For those who cannot wait for `CONFIRM_TIMEOUT` to be over."""
        own = self._own.get(key)
        if own is not None and own[1] == uid:
            del self._own[key]
        self._gone.add(uid)
        self._clock.call_later(CONFIRM_TIMEOUT, lambda: self._gone.discard(uid))

    def record_write(self, answer: Object) -> T | None:
        """The server's answer to a write of an object; gives what readers see from now on."""
        snapshot = self._informer.cache.read(orjson.dumps(answer))
        metadata = answer["metadata"]
        # Taking the last finalizer off is how an object that is being deleted goes; a pod first has its time to end.
        gone = bool(metadata.get("deletionTimestamp")) and not _held(metadata)
        if snapshot.uid not in self._gone:
            self._note(snapshot.key, None if gone else snapshot, snapshot.uid)
        return self.get(snapshot.key)

    def record_delete(self, key: ObjectKey, uid: str, answer: Object) -> None:
        """The server's answer to the deletion of the object with this uid: the object, when something still holds it."""
        if answer.get("kind") != "Status" and _held(answer.get("metadata") or {}) and key_of(answer) == key:
            self.record_write(answer)
        else:
            self._note(key, None, uid)

    def _note(self, key: ObjectKey, answer: Snapshot | None, uid: str) -> None:
        now = self._clock.monotonic()
        # Insertion order is the order of age; what nobody asked for again goes here.
        while self._own and (oldest := next(iter(self._own))) and self._own[oldest][2] <= now:
            del self._own[oldest]
        self._own.pop(key, None)
        self._own[key] = (answer, uid, now + CONFIRM_TIMEOUT)


def _held(metadata: Object) -> bool:
    """Whether something keeps an object that is being deleted: a finalizer, or a pod's grace period."""
    return bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))


def _supersedes(cached: Snapshot | None, answer: Snapshot | None, uid: str) -> bool:
    """Whether the cache has seen what was written, or something later."""
    if answer is None:
        return cached is None or cached.uid != uid
    if cached is None:
        return False
    try:
        return int(cached.resource_version) >= int(answer.resource_version)
    except ValueError:
        return True
