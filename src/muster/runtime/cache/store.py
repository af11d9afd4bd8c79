"""An indexed, read-only cache of a collection with a small memory footprint: it keeps the encoded objects.

For each object the cache has its JSON and the common metadata. The decoded value for readers (an untyped tree, or the result of
`decode`) is made once and shared, as long as it is among the recently used: up to `KEPT` bytes of JSON stay decoded. A collection
smaller than that is decoded once per version; in a larger one, objects that are not read cost only their bytes, and not several
times as much for Python objects.

Callers must not change cached values: all readers share one copy. `Snapshot.altered` detects a violation in tests. An index is a
function from object to values, updated with every change.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

import msgspec
import orjson

from muster.kube.selectors import Selector
from muster.machinery.objects import GVR, Object, ObjectKey

T = TypeVar("T")
KEPT = 128 * 1024
"""How many bytes of JSON one cache keeps decoded. Decoding costs microseconds, and trees several times their bytes: sixteen times
this made a hub of 200 clusters an eighth larger and no faster."""


class _Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, gc=False):
    metadata: _Metadata


_decode_head = msgspec.json.Decoder(_Head).decode
_NO_LABELS: Mapping[str, str] = {}


class Recent(Generic[T]):
    """The most recently used decoded values of a cache, up to `kept` bytes of JSON."""

    def __init__(self, decode: Callable[[Snapshot], T], kept: int = KEPT) -> None:
        self._decode = decode
        self._kept = kept
        self._size = 0
        self._forms: OrderedDict[int, tuple[Snapshot, T]] = OrderedDict()

    def get(self, snapshot: Snapshot) -> T:
        marker = id(snapshot)
        found = self._forms.get(marker)
        if found is not None:
            self._forms.move_to_end(marker)
            return found[1]
        form = self._decode(snapshot)
        # The snapshot is kept beside its value: as long as it lives its id is not reused.
        self._forms[marker] = (snapshot, form)
        self._size += len(snapshot.raw)
        while self._size > self._kept and len(self._forms) > 1:
            _, (oldest, _) = self._forms.popitem(last=False)
            self._size -= len(oldest.raw)
        return form

    def drop(self, snapshot: Snapshot) -> None:
        if self._forms.pop(id(snapshot), None) is not None:
            self._size -= len(snapshot.raw)


class Snapshot:
    """One version of one object: its bytes and its common metadata."""

    __slots__ = ("_trees", "key", "labels", "raw", "resource", "resource_version", "uid")

    def __init__(self, raw: bytes, resource: GVR, trees: Recent[Object]) -> None:
        metadata = _decode_head(raw).metadata
        self.raw = raw
        self.resource = resource
        self.key = ObjectKey(sys.intern(metadata.namespace), metadata.name)
        self.uid = metadata.uid
        self.resource_version = metadata.resourceVersion
        # Labels repeat from object to object: one string for all.
        self.labels: Mapping[str, str] = (
            {sys.intern(name): sys.intern(value) for name, value in metadata.labels.items()} if metadata.labels else _NO_LABELS
        )
        self._trees = trees

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def data(self) -> Object:
        """The whole object, shared by all readers; it must not be changed."""
        return self._trees.get(self)

    def decode(self) -> Object:
        """A decoded copy for the caller."""
        tree = cast(Object, orjson.loads(self.raw))
        # Items of built-in lists come without apiVersion and kind.
        tree.setdefault("apiVersion", self.resource.api_version)
        tree.setdefault("kind", self.resource.kind)
        return tree

    @property
    def altered(self) -> bool:
        """Whether a reader has changed the shared tree."""
        return self.data != self.decode()

    def __repr__(self) -> str:
        return f"<{self.resource} {self.key} at {self.resource_version}>"


class _Entry:
    __slots__ = ("indexed", "snapshot")

    def __init__(self, snapshot: Snapshot, indexed: tuple[tuple[str, ...], ...]) -> None:
        self.snapshot = snapshot
        self.indexed = indexed


IndexFunction = Callable[[T], Iterable[str]]


class Cache(Generic[T]):
    """Objects by key, namespace, label and the given indexes. Reads never wait and never copy objects."""

    def __init__(
        self,
        resource: GVR,
        decode: Callable[[bytes], T] | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        kept: int = KEPT,
    ) -> None:
        self._resource = resource
        self._trees: Recent[Object] = Recent(Snapshot.decode, kept)
        self._values: Recent[T] | None = None if decode is None else Recent(lambda snapshot: decode(snapshot.raw), kept)
        self._entries: dict[ObjectKey, _Entry] = {}
        self._functions: dict[str, IndexFunction[T]] = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[ObjectKey, None]]] = {name: {} for name in self._functions}
        self._namespaces: dict[str, dict[ObjectKey, None]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[T]:
        """All objects at the time when the iteration began."""
        return (self.value_of(entry.snapshot) for entry in list(self._entries.values()))

    def all_keys(self) -> list[ObjectKey]:
        return list(self._entries)

    def get(self, key: ObjectKey) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else self.value_of(entry.snapshot)

    def named(self, name: str, namespace: str = "") -> T | None:
        return self.get(ObjectKey(namespace, name))

    def snapshot(self, key: ObjectKey) -> Snapshot | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.snapshot

    def in_namespace(self, namespace: str) -> list[T]:
        return self._all(self._namespaces.get(namespace, ()))

    def by_index(self, index: str, value: str) -> list[T]:
        return self._all(self._indexes[index].get(value, ()))

    def index_values(self, index: str) -> list[str]:
        return list(self._indexes[index])

    def select(self, selector: Selector, namespace: str | None = None) -> list[T]:
        """Objects whose labels match, of one namespace or of all."""
        return self._all(self.select_keys(selector, namespace))

    def select_keys(self, selector: Selector, namespace: str | None = None) -> list[ObjectKey]:
        """The keys of the objects that `select` would return, without decoding."""
        keys: Iterable[ObjectKey] = self._entries if namespace is None else self._namespaces.get(namespace, ())
        return [key for key in keys if selector.matches(self._entries[key].snapshot.labels)]

    def _all(self, keys: Iterable[ObjectKey]) -> list[T]:
        return [self.value_of(self._entries[key].snapshot) for key in keys]

    def value_of(self, snapshot: Snapshot) -> T:
        """The value of a version for readers: decoded, or the snapshot itself if there is no decoder."""
        return cast(T, snapshot) if self._values is None else self._values.get(snapshot)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index, including what is cached already."""
        if name in self._functions:
            raise ValueError(f"there is an index {name!r} already")
        values = {key: tuple(function(self.value_of(entry.snapshot))) for key, entry in self._entries.items()}
        self._functions[name] = function
        self._indexes[name] = {}
        for key, entry in self._entries.items():
            entry.indexed = (*entry.indexed, values[key])
            _enter(self._indexes[name], values[key], key)

    # Only the informer writes.

    def read(self, raw: bytes) -> Snapshot:
        return Snapshot(raw, self._resource, self._trees)

    def put(self, snapshot: Snapshot) -> Snapshot | None:
        """Store a version; returns the one that it replaces. If a decoder or index function fails, nothing changes."""
        key, value = snapshot.key, self.value_of(snapshot)
        entry = _Entry(snapshot, tuple(tuple(function(value)) for function in self._functions.values()))
        old = self._entries.get(key)
        if old is not None:
            self._unindex(key, old)
        else:
            self._namespaces.setdefault(key.namespace, {})[key] = None
        self._entries[key] = entry
        for index, values in zip(self._indexes.values(), entry.indexed, strict=True):
            _enter(index, values, key)
        return None if old is None else old.snapshot

    def remove(self, key: ObjectKey) -> Snapshot | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._unindex(key, entry)
        _discard(self._namespaces, key.namespace, key)
        return entry.snapshot

    def retire(self, snapshot: Snapshot) -> T:
        """The value of a version that is no longer cached, which is not kept decoded."""
        value = self.value_of(snapshot)
        self._trees.drop(snapshot)
        if self._values is not None:
            self._values.drop(snapshot)
        return value

    def _unindex(self, key: ObjectKey, entry: _Entry) -> None:
        for index, values in zip(self._indexes.values(), entry.indexed, strict=True):
            for one in values:
                _discard(index, one, key)


def _enter(index: dict[str, dict[ObjectKey, None]], values: Iterable[str], key: ObjectKey) -> None:
    for value in values:
        index.setdefault(value, {})[key] = None


def _discard(index: dict[str, dict[ObjectKey, None]], value: str, key: ObjectKey) -> None:
    members = index.get(value)
    if members is not None:
        members.pop(key, None)
        if not members:
            del index[value]


def label_index(label: str) -> Callable[[Snapshot], Iterable[str]]:
    """An index over one label's values."""
    return lambda snapshot: (snapshot.labels[label],) if label in snapshot.labels else ()
