"""What is known of one followed object, and which reports about it are news.

Reports come from watches, polls and the answers to our own writes, in any order. Kubernetes counts the versions of a collection
upwards, so a report older than what is known is no news, and a uid that has gone never comes back. `reported` is what those who
follow the object know; there is something to tell when that is not what is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, cast

import msgspec
import orjson

from muster.machinery.objects import GVR, Object


class Presence(Enum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ObservedObject:
    """What is known of an object without asking the cluster."""

    presence: Presence
    uid: str = ""
    version: str = ""
    """Its resourceVersion."""
    raw: bytes = b""
    """Its JSON without managedFields; of an absent one as it was when it went, where that was told."""


ABSENT: Final = ObservedObject(Presence.ABSENT)
UNKNOWN: Final = ObservedObject(Presence.UNKNOWN)


class OwnerKind(msgspec.Struct, gc=False):
    kind: str = ""
    apiVersion: str = ""


class Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    ownerReferences: list[OwnerKind] | None = None


class _Head(msgspec.Struct, gc=False):
    metadata: Metadata


_decode_head = msgspec.json.Decoder(_Head).decode
_WHOSE: Final = ("ownerReferences", "resourceVersion")


def head(raw: bytes) -> Metadata:
    """The few words of an object that decide whether anybody cares. Raises msgspec.DecodeError."""
    return _decode_head(raw).metadata


class ObjectState:
    """What is known of one object. Each report returns nothing; `news` says whether somebody is to be told."""

    __slots__ = ("differs", "followers", "presence", "raw", "reported", "uid", "unread", "version", "was_read")

    def __init__(self) -> None:
        self.followers: tuple[str, ...] = ()
        self.presence = Presence.UNKNOWN
        self.uid = ""
        """Of an absent one: who must not be taken for back."""
        self.version = ""
        """Of an absent one: the last that was known."""
        self.raw = b""
        self.reported: str | None = None
        """The version that is known to those who follow; empty: that it is absent; None: nothing."""
        self.differs = False
        """Whether it differs from what those who share it were told in more than whose it is."""
        self.was_read = False
        """Somebody has been told that nothing is known."""
        self.unread = False
        """It was there when the state was taken in, but nobody followed it yet."""

    @property
    def news(self) -> bool:
        return self.presence is not Presence.UNKNOWN and self.reported != self._now

    @property
    def _now(self) -> str:
        return self.version if self.presence is Presence.PRESENT else ""

    def mark_reported(self) -> None:
        self.reported = self._now
        self.differs = False

    def get(self) -> ObservedObject:
        if self.presence is Presence.PRESENT:
            return ObservedObject(Presence.PRESENT, self.uid, self.version, self.raw)
        if self.presence is Presence.ABSENT:
            return ObservedObject(Presence.ABSENT, raw=self.raw) if self.raw else ABSENT
        self.was_read = True
        return UNKNOWN

    def seen(self, uid: str, version: str, raw: Callable[[], bytes]) -> None:
        if self.presence is not Presence.UNKNOWN and (version == self.version or older(version, self.version)):
            return
        if self.presence is Presence.ABSENT and uid and uid == self.uid:
            return
        self._learn(Presence.PRESENT, uid, version, raw())

    def gone(self, uid: str, version: str, last: Callable[[], bytes] = bytes) -> None:
        """It was deleted, as an event says, which also says how it was at last."""
        if self.presence is Presence.PRESENT and uid != self.uid and older(version, self.version):
            return
        if self.presence is not Presence.ABSENT:
            self._learn(Presence.ABSENT, uid, raw=last())

    def missing(self, version: str) -> None:
        """The whole state of `version` was without it."""
        if self.presence is Presence.PRESENT and older(version, self.version):
            return
        if self.presence is not Presence.ABSENT:
            self._learn(Presence.ABSENT)

    def written(self, uid: str, version: str, raw: bytes) -> None:
        """What the answer to an own request said: it is known, and no news."""
        self.seen(uid, version, lambda: raw)
        # Something newer may be known already, and that is news.
        if self.version == version or self.reported is None:
            self.reported = version

    def deleted(self) -> None:
        """The answer to an own request said that it is not there."""
        if self.presence is not Presence.ABSENT:
            # A server may say so while a finalizer still holds the object: what it says later of this uid is believed.
            self._learn(Presence.ABSENT, version=self.version)
        self.reported = self._now

    def forget(self) -> None:
        """What was known counts no longer; what will be known is news unless it is the same."""
        self.was_read = True
        self._learn(Presence.UNKNOWN)

    def _learn(self, presence: Presence, uid: str = "", version: str = "", raw: bytes = b"") -> None:
        first = self.presence is Presence.UNKNOWN
        if len(self.followers) > 1 and not self.differs:
            self.differs = presence is not self.presence or not alike(self.raw, raw)
        self.presence, self.uid, self.version, self.raw, self.unread = presence, uid, version, raw, False
        if first and not self.was_read:
            self.mark_reported()


def alike(one: bytes, other: bytes) -> bool:
    """Whether two states are the same but for their versions and owners: followers that share an object may each own it."""
    return one == other or _without_owners(one) == _without_owners(other)


def _without_owners(raw: bytes) -> Object:
    document: Object = orjson.loads(raw) if raw else {}
    metadata = document.get("metadata") or {}
    return {**document, "metadata": {key: value for key, value in metadata.items() if key not in _WHOSE}}


def older(version: str, than: str) -> bool:
    """Whether one version surely came before another."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def trimmed(raw: bytes, resource: GVR) -> bytes:
    """An object of a list or watch as it is kept: with its type, without the books on who wrote what."""
    return kept(cast(Object, orjson.loads(raw)), resource)


def kept(document: Object, resource: GVR) -> bytes:
    """Like `trimmed`; the document stays as it is."""
    metadata = document.get("metadata") or {}
    if "managedFields" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
    # Items of built-in lists come without their type.
    raw = orjson.dumps({"apiVersion": resource.api_version, "kind": resource.kind, **document, "metadata": metadata})
    # A copy has the size it needs; what orjson returns has 4 KiB at least, for as long as it is kept.
    return bytes(memoryview(raw))
