"""What the hub has answered to writes of this process, until the source tells of it: whoever writes again knows its own last write.

Without it the second of two quick reports about a work would be valid for a version that is no more, and cost a conflict, a read
and another write, though nobody else wrote. As client-go's MutationCache, but by uid, of heads alone, and apart from the kept
objects, because what is told to agents is told when the source tells it. Entries last seconds and are bounded, so an error here
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
        """By uid, with until when. The order of coming is the order of age."""

    def __len__(self) -> int:
        return len(self._heads)

    def record(self, answer: Object, **status: Any) -> None:
        """The hub's answer to a write; of its status nothing but this is kept."""
        now, metadata = self._clock.monotonic(), answer["metadata"]
        head = {"metadata": {name: metadata[name] for name in _METADATA if name in metadata}, "status": status}
        self._heads.pop(metadata["uid"], None)
        self._heads[metadata["uid"]] = (head, now + KEPT_SECONDS)
        while len(self._heads) > self._most or next(iter(self._heads.values()))[1] <= now:
            self._heads.popitem(last=False)

    def latest(self, kept: KeptObject) -> Object:
        """Metadata and status of an object, by the last answer about it where that is newer."""
        head, until = self._heads.get(kept.uid, (None, 0.0))
        if head is not None:
            if self._clock.monotonic() < until and is_older(kept.snapshot.resource_version, head["metadata"]["resourceVersion"]):
                return head
            del self._heads[kept.uid]
        read = _read_head(kept.raw)
        return {"metadata": read.metadata, "status": read.status or {}}


def is_older(one: str, other: str) -> bool:
    """Versions are compared as numbers; where they are none, nothing is older."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
