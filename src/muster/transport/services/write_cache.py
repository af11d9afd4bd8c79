"""Responses to this process's own writes, until the source reports them: the next write uses the latest version.

Without it the second of two quick reports about a work would have an old resourceVersion, and cost a conflict, a read and another
write, though there was no other writer. As client-go's MutationCache, but by uid, with metadata only, and separate from the kept
objects, because agents receive a change when the source reports it. Entries expire after seconds and are bounded, so an error here
costs one needless conflict.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import msgspec

from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.transport.services.objects import KeptObject

MOST: Final = 10_000
KEPT_SECONDS: Final = 10.0
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp", "finalizers")


class _Head(msgspec.Struct):
    metadata: dict[str, Any]
    status: dict[str, Any] | None = None


_read_head: Final = msgspec.json.Decoder(_Head).decode


class WriteCache:
    def __init__(self, *, most: int = MOST, clock: Clock = SYSTEM) -> None:
        self._most = most
        self._clock = clock
        self._heads: OrderedDict[str, tuple[Object, float]] = OrderedDict()
        """By uid, with the time of expiration. Insertion order is the order of age."""

    def __len__(self) -> int:
        return len(self._heads)

    def record(self, answer: Object, **status: Any) -> None:
        """Record the response to a write; of its status only `status` is kept."""
        now, metadata = self._clock.monotonic(), answer["metadata"]
        head = {"metadata": {name: metadata[name] for name in _METADATA if name in metadata}, "status": status}
        self._heads.pop(metadata["uid"], None)
        self._heads[metadata["uid"]] = (head, now + KEPT_SECONDS)
        while len(self._heads) > self._most or next(iter(self._heads.values()))[1] <= now:
            self._heads.popitem(last=False)

    def latest(self, kept: KeptObject) -> Object:
        """Metadata and status of an object, from the last response if that is newer."""
        head, until = self._heads.get(kept.uid, (None, 0.0))
        if head is not None:
            if self._clock.monotonic() < until and is_older(kept.snapshot.resource_version, head["metadata"]["resourceVersion"]):
                return head
            del self._heads[kept.uid]
        read = _read_head(kept.raw)
        return {"metadata": read.metadata, "status": read.status or {}}


def is_older(one: str, other: str) -> bool:
    """Versions are compared as numbers; if they are no numbers, the result is False."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
