"""Deleted objects: enough of each to report its deletion to an agent that still has it.

A resync request has uids. A missing object may have been deleted, or may never have existed here; only a known deletion is
reported. Their number and age are limited; the oldest are dropped first. An agent that was away for longer must send names itself.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from muster.machinery.clock import SYSTEM, Clock
from muster.transport.codecs.resync import Tombstone
from muster.transport.contract.rows import Row
from muster.transport.services.objects import KeptObject

MOST: Final = 50_000
"""Per row. Each takes about half a KiB."""
KEPT_SECONDS: Final = 24 * 3600.0


class Tombstones:
    def __init__(self, row: Row, *, most: int = MOST, seconds: float = KEPT_SECONDS, clock: Clock = SYSTEM) -> None:
        self._row = row
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[str, tuple[Tombstone, float]] = OrderedDict()
        """By uid, with the time of expiration. Insertion order is the order of age."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, gone: KeptObject) -> None:
        now = self._clock.monotonic()
        tombstone = Tombstone(
            cluster=gone.cluster,
            namespace=gone.snapshot.namespace,
            name=gone.snapshot.name,
            resource_id=gone.uid,
            version=gone.version(self._row),
        )
        self._kept.pop(gone.uid, None)
        self._kept[gone.uid] = (tombstone, now + self._seconds)
        while len(self._kept) > self._most or next(iter(self._kept.values()))[1] <= now:
            self._kept.popitem(last=False)

    def get(self, cluster: str, uid: str) -> Tombstone | None:
        """Of an object that belonged to this cluster."""
        tombstone, until = self._kept.get(uid, (None, 0.0))
        if tombstone is None or tombstone.cluster != cluster or until <= self._clock.monotonic():
            return None
        return tombstone

    def forget(self, uid: str) -> None:
        """The object exists after all: a label that assigns it to a cluster was removed and added again."""
        self._kept.pop(uid, None)
