"""The objects of one row as a service knows them: by uid and by cluster, with what resyncs and listeners ask of each at hand.

Where they come from is behind `ObjectSource`: an informer of a Kubernetes API, or a store in the same process. Of each object its
bytes are kept, and beside them the few words that are asked for again and again, so that neither a version nor the question whether
something changed that agents are told of takes a look into the bytes.
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
"""Told (old, new): no old one of what came, no new one of what went."""


class ObjectSource(Protocol):
    """Follows the objects of a row, wherever they are kept. `run` is to be a task of its owner."""

    @property
    def synced(self) -> bool:
        """Whether the whole state was here once."""

    @property
    def served(self) -> bool:
        """False while wherever they are kept there is no such kind."""

    def on_change(self, handler: SourceHandler) -> None:
        """Told of everything that is here already, then of every change. Must be quick."""

    async def run(self) -> None: ...


class NoObjects:
    """The source of a row whose objects agents are not told of."""

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
"""Is in the bytes of whatever has that condition, and rarely in others'."""
_encode = msgspec.json.Encoder(order="sorted").encode

_CLUSTER: Final[Mapping[Belongs, Callable[[Snapshot], str]]] = {
    Belongs.NAMESPACE: lambda snapshot: snapshot.namespace,
    Belongs.NAME: lambda snapshot: snapshot.name,
    Belongs.LABEL: lambda snapshot: snapshot.labels.get(CLUSTER_LABEL, ""),
}


class Selection(TypedDict, total=False):
    """Of which objects of a resource a list is to be."""

    namespace: str
    label_selector: str
    field_selector: str


def selection_of(row: Row, cluster: str) -> Selection:
    """Of the objects of one cluster."""
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
            # Annotations may be as large as the object: their hash is kept, not they.
            named = _encode((metadata.labels or {}, metadata.annotations or {}))
            self._fingerprint = (self.generation, self.deleting, hashlib.blake2b(named, digest_size=16).digest())

    @property
    def uid(self) -> str:
        return self.snapshot.uid

    @property
    def raw(self) -> bytes:
        return self.snapshot.raw

    def version(self, row: Row) -> int:
        """As the row counts; 0 where there is none."""
        if row.versioned is Versioned.GENERATION:
            return self.generation
        version = self.snapshot.resource_version
        return int(version) if version.isdecimal() else 0

    @property
    def undelivered(self) -> int | None:
        """Of a work that says of itself that agents cannot be sent it: the generation that this was said of."""
        if _UNDELIVERED not in self.raw:
            return None
        try:
            conditions = (_decode_conditions(self.raw).status or _Status()).conditions or ()
        except msgspec.DecodeError:
            return None
        return next((condition.observedGeneration for condition in conditions if condition.type == DELIVERED), None)

    def differs(self, other: KeptObject) -> bool:
        """Whether agents are told of the step from one to the other. Of works they are not told what they have reported themselves:
        labels, annotations, generation and deletion count. Of other kinds every version counts, because whoever writes next has
        to know it."""
        return self._fingerprint != other._fingerprint


class KeptObjects:
    """By uid, and by cluster. An object that is no cluster's is not kept."""

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
        """Looks at all that the cluster has."""
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
