"""The known objects of one row, by uid and by cluster, with the values that resyncs and subscribers need.

They come from an `ObjectSource`: an informer of a Kubernetes API, or a store in the same process. For each object its bytes are
kept, and the few values that are needed often, so that neither the version nor the check for relevant changes requires decoding.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypedDict

import msgspec

from muster.api.agents import CLUSTER_LABEL
from muster.runtime.cache import Snapshot
from muster.transport.contract.rows import Belongs, Row, Versioned
from muster.transport.services.reduction import DELIVERED

SourceHandler = Callable[[Snapshot | None, Snapshot | None], None]
"""Called with (old, new): no old one for an added object, no new one for a deleted one."""


class ObjectSource(Protocol):
    """Reads the objects of a row from any storage. Its owner runs `run` as a task."""

    @property
    def synced(self) -> bool:
        """Whether the state was complete once."""

    @property
    def served(self) -> bool:
        """False while the storage does not have the kind."""

    def on_change(self, handler: SourceHandler) -> None:
        """The handler is called for every known object, then for every change. Must be quick."""

    async def run(self) -> None: ...


class NoObjects:
    """The source of a row whose objects are not sent to agents."""

    @property
    def synced(self) -> bool:
        return True

    @property
    def served(self) -> bool:
        return True

    def on_change(self, handler: SourceHandler) -> None:
        return

    async def run(self) -> None:
        await asyncio.Event().wait()


class _Metadata(msgspec.Struct, gc=False):
    generation: int = 0
    deletionTimestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Head(msgspec.Struct, gc=False):
    metadata: _Metadata


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    observedGeneration: int = 0


class _Status(msgspec.Struct, gc=False):
    conditions: list[_Condition] | None = None


class _Judged(msgspec.Struct, gc=False):
    status: _Status | None = None


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_conditions = msgspec.json.Decoder(_Judged).decode
_UNDELIVERED: Final = b'"%s"' % DELIVERED.encode()
"""Contained in the bytes of every object with that condition, and rarely in others."""
_encode = msgspec.json.Encoder(order="sorted").encode

_CLUSTER: Final[Mapping[Belongs, Callable[[Snapshot], str]]] = {
    Belongs.NAMESPACE: lambda snapshot: snapshot.namespace,
    Belongs.NAME: lambda snapshot: snapshot.name,
    Belongs.LABEL: lambda snapshot: snapshot.labels.get(CLUSTER_LABEL, ""),
}


class Selection(TypedDict, total=False):
    """The selection of a list."""

    namespace: str
    label_selector: str
    field_selector: str


def selection_of(row: Row, cluster: str) -> Selection:
    """The objects of one cluster."""
    if row.belongs is Belongs.NAMESPACE:
        return {"namespace": cluster, "label_selector": row.selector}
    if row.belongs is Belongs.NAME:
        return {"field_selector": f"metadata.name={cluster}"}
    return {"label_selector": f"{CLUSTER_LABEL}={cluster}"}


class KeptObject:
    """One version of one object."""

    __slots__ = ("_fingerprint", "cluster", "deleting", "generation", "snapshot")

    def __init__(self, row: Row, snapshot: Snapshot) -> None:
        metadata = _decode_head(snapshot.raw).metadata
        self.cluster = _CLUSTER[row.belongs](snapshot)
        self.snapshot = snapshot
        self.generation = metadata.generation
        self.deleting = bool(metadata.deletionTimestamp)
        self._fingerprint: object = snapshot.resource_version
        if row.versioned is Versioned.GENERATION:
            # Annotations may be as large as the object: their hash is kept instead.
            named = _encode((metadata.labels or {}, metadata.annotations or {}))
            self._fingerprint = (self.generation, self.deleting, hashlib.blake2b(named, digest_size=16).digest())

    @property
    def uid(self) -> str:
        return self.snapshot.uid

    @property
    def raw(self) -> bytes:
        return self.snapshot.raw

    def version(self, row: Row) -> int:
        """By the row's counting; 0 if there is none."""
        if row.versioned is Versioned.GENERATION:
            return self.generation
        version = self.snapshot.resource_version
        return int(version) if version.isdecimal() else 0

    @property
    def undelivered(self) -> int | None:
        """For a work with the condition that it cannot be sent: the generation of the condition."""
        if _UNDELIVERED not in self.raw:
            return None
        try:
            conditions = (_decode_conditions(self.raw).status or _Status()).conditions or ()
        except msgspec.DecodeError:
            return None
        return next((condition.observedGeneration for condition in conditions if condition.type == DELIVERED), None)

    def differs(self, other: KeptObject) -> bool:
        """Whether agents must receive the change. For works their own reports are ignored: labels, annotations, generation and
        deletion count. For other kinds every version counts, because the next writer needs it."""
        return self._fingerprint != other._fingerprint


class KeptObjects:
    """By uid, and by cluster. Objects without a cluster are not kept."""

    def __init__(self) -> None:
        self._by_uid: dict[str, KeptObject] = {}
        self._by_cluster: dict[str, dict[str, KeptObject]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> KeptObject | None:
        return self._by_uid.get(uid)

    def of_cluster(self, cluster: str) -> Iterable[KeptObject]:
        return self._by_cluster.get(cluster, {}).values()

    def named(self, cluster: str, name: str) -> KeptObject | None:
        """Searches all objects of the cluster."""
        return next((kept for kept in self.of_cluster(cluster) if kept.snapshot.name == name), None)

    def put(self, kept: KeptObject) -> None:
        self.remove(kept.uid)
        if kept.cluster:
            self._by_uid[kept.uid] = kept
            self._by_cluster.setdefault(kept.cluster, {})[kept.uid] = kept

    def remove(self, uid: str) -> KeptObject | None:
        kept = self._by_uid.pop(uid, None)
        if kept is not None:
            members = self._by_cluster[kept.cluster]
            del members[uid]
            if not members:
                del self._by_cluster[kept.cluster]
        return kept
