"""The known state of one followed object, and whether a report about it must be passed on to followers.

Reports come from watches, polls and responses to own writes, in any order. Versions of a collection increase, so a report older
than the known version is ignored, and a uid that was deleted never returns. `reported` is the version that followers know; if it
differs from the known version, they are notified.
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
    """The state of an object that is known without a request."""

    presence: Presence
    uid: str = ""
    version: str = ""
    """Its resourceVersion."""
    raw: bytes = b""
    """Its JSON without managedFields; for an absent object its last state, if that was reported."""


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
    """The part of the metadata that decides whether the object is kept. Raises msgspec.DecodeError."""
    return _decode_head(raw).metadata


class ObjectState:
    """The known state of one object. Reports return nothing; `news` is whether followers must be notified."""

    __slots__ = ("differs", "followers", "presence", "raw", "reported", "uid", "unread", "version", "was_read")

    def __init__(self) -> None:
        self.followers: tuple[str, ...] = ()
        self.presence = Presence.UNKNOWN
        self.uid = ""
        """For an absent object: the uid that must not be reported as present again."""
        self.version = ""
        """For an absent object: the last version that was known."""
        self.raw = b""
        self.reported: str | None = None
        """The version that followers know; empty: that it is absent; None: nothing."""
        self.differs = False
        """Whether it differs from what was reported to the followers that share it in more than owner references."""
        self.was_read = False
        """A follower has read that its state is unknown."""
        self.unread = False
        """It existed when the collection was listed, but was not followed yet."""

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
        """An event reported its deletion, with its last state."""
        if self.presence is Presence.PRESENT and uid != self.uid and older(version, self.version):
            return
        if self.presence is not Presence.ABSENT:
            self._learn(Presence.ABSENT, uid, raw=last())

    def missing(self, version: str) -> None:
        """A list at `version` did not contain it."""
        if self.presence is Presence.PRESENT and older(version, self.version):
            return
        if self.presence is not Presence.ABSENT:
            self._learn(Presence.ABSENT)

    def written(self, uid: str, version: str, raw: bytes) -> None:
        """The response to an own request: its state is known, and followers need no notification."""
        self.seen(uid, version, lambda: raw)
        # A newer version may be known already, which followers must be notified of.
        if self.version == version or self.reported is None:
            self.reported = version

    def deleted(self) -> None:
        """The response to an own request was that it does not exist."""
        if self.presence is not Presence.ABSENT:
            # A server may answer so while a finalizer still holds the object: later reports about this uid are accepted.
            self._learn(Presence.ABSENT, version=self.version)
        self.reported = self._now

    def forget(self) -> None:
        """The known state is no longer valid; the next report is passed on unless it is the same."""
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
    """Whether two states are equal but for versions and owner references: each follower of a shared object may own it."""
    return one == other or _without_owners(one) == _without_owners(other)


def _without_owners(raw: bytes) -> Object:
    document: Object = orjson.loads(raw) if raw else {}
    metadata = document.get("metadata") or {}
    return {**document, "metadata": {key: value for key, value in metadata.items() if key not in _WHOSE}}


def older(version: str, than: str) -> bool:
    """Whether one version is certainly older than another."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def trimmed(raw: bytes, resource: GVR) -> bytes:
    """An object of a list or watch as it is stored: with its type, without managedFields."""
    return kept(cast(Object, orjson.loads(raw)), resource)


def kept(document: Object, resource: GVR) -> bytes:
    """Like `trimmed`; the document is not changed."""
    metadata = document.get("metadata") or {}
    if "managedFields" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
    # Items of built-in lists come without their type.
    raw = orjson.dumps({"apiVersion": resource.api_version, "kind": resource.kind, **document, "metadata": metadata})
    # The copy has the size that it needs; orjson's result keeps 4 KiB at least.
    return bytes(memoryview(raw))
