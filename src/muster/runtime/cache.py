"""An indexed, read-only picture of a collection, kept small: the bytes of each object, and what was asked of it.

Per object the cache holds its JSON and the few words of metadata that everybody needs; the rest is decoded by the first reader
and then shared by all. Untyped readers (`Snapshot.data`) share one tree per object; the most recently read trees stay, the
others are made again when needed, so that a cache costs its bytes and not the tenfold of them that Python's dicts would. Typed
caches (`decode`) keep what `decode` gave, decoded once on arrival.

Nobody may change what the cache hands out: there is one copy for all. `Snapshot.altered` finds an offender in a test.
An index is a function from object to values; it is kept in step by every change.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

import msgspec
import orjson

from muster.kube.selectors import Selector
from muster.runtime.resource import Key, Object, Resource

T = TypeVar("T")
TREES = 512
"""How many decoded trees of one cache stay."""


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


class Trees:
    """The most recently read object trees of a cache."""

    def __init__(self, limit: int = TREES) -> None:
        self._limit = limit
        self._recent: OrderedDict[int, tuple[Snapshot, Object]] = OrderedDict()

    def get(self, snapshot: Snapshot) -> Object:
        marker = id(snapshot)
        found = self._recent.get(marker)
        if found is not None:
            self._recent.move_to_end(marker)
            return found[1]
        tree = snapshot.decode()
        # The snapshot is kept beside its tree: as long as it lives its id is nobody else's.
        self._recent[marker] = (snapshot, tree)
        if len(self._recent) > self._limit:
            self._recent.popitem(last=False)
        return tree

    def drop(self, snapshot: Snapshot) -> None:
        self._recent.pop(id(snapshot), None)


class Snapshot:
    """One version of one object: its bytes, and what everybody asks of it."""

    __slots__ = ("_trees", "key", "labels", "raw", "resource", "resource_version", "uid")

    def __init__(self, raw: bytes, resource: Resource, trees: Trees) -> None:
        metadata = _decode_head(raw).metadata
        self.raw = raw
        self.resource = resource
        self.key = Key(sys.intern(metadata.namespace), metadata.name)
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
        """The whole object, shared by all readers: look, do not touch."""
        return self._trees.get(self)

    def decode(self) -> Object:
        """A tree of the caller's own."""
        tree = cast(Object, orjson.loads(self.raw))
        # Items of built-in lists come without these two.
        tree.setdefault("apiVersion", self.resource.api_version)
        tree.setdefault("kind", self.resource.kind)
        return tree

    @property
    def altered(self) -> bool:
        """Whether somebody has written into the shared tree."""
        return self.data != self.decode()

    def __repr__(self) -> str:
        return f"<{self.resource} {self.key} at {self.resource_version}>"


class Entry(Generic[T]):
    """What the cache has of one object: the snapshot, and the value readers get."""

    __slots__ = ("indexed", "snapshot", "value")

    def __init__(self, snapshot: Snapshot, value: T) -> None:
        self.snapshot = snapshot
        self.value = value
        self.indexed: tuple[tuple[str, ...], ...] = ()


IndexFunction = Callable[[T], Iterable[str]]


class Cache(Generic[T]):
    """Objects by key, by namespace, by label and by the indexes it was given. Reads never wait and never copy objects."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._entries: dict[Key, Entry[T]] = {}
        self._functions: dict[str, IndexFunction[T]] = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._functions}
        self._namespaces: dict[str, dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[T]:
        return iter([entry.value for entry in self._entries.values()])

    def all_keys(self) -> list[Key]:
        return list(self._entries)

    def get(self, key: Key) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def named(self, name: str, namespace: str = "") -> T | None:
        return self.get(Key(namespace, name))

    def snapshot(self, key: Key) -> Snapshot | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.snapshot

    def in_namespace(self, namespace: str) -> list[T]:
        return self._values(self._namespaces.get(namespace, ()))

    def by_index(self, index: str, value: str) -> list[T]:
        return self._values(self._indexes[index].get(value, ()))

    def index_values(self, index: str) -> list[str]:
        return list(self._indexes[index])

    def select(self, selector: Selector, namespace: str | None = None) -> list[T]:
        """Objects whose labels match, of one namespace or of all."""
        keys: Iterable[Key] = self._entries if namespace is None else self._namespaces.get(namespace, ())
        return [self._entries[key].value for key in keys if selector.matches(self._entries[key].snapshot.labels)]

    def _values(self, keys: Iterable[Key]) -> list[T]:
        return [self._entries[key].value for key in keys]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """One more index, also over what is here already."""
        if name in self._functions:
            raise ValueError(f"there is an index {name!r} already")
        self._functions[name] = function
        self._indexes[name] = {}
        for key, entry in self._entries.items():
            values = tuple(function(entry.value))
            entry.indexed = (*entry.indexed, values)
            _enter(self._indexes[name], values, key)

    # Writing is the informer's business alone.

    def put(self, entry: Entry[T]) -> Entry[T] | None:
        """Take in an object; gives the entry that it replaces. An index function that fails leaves everything as it was."""
        key = entry.snapshot.key
        entry.indexed = tuple(tuple(function(entry.value)) for function in self._functions.values())
        old = self._entries.get(key)
        if old is not None:
            self._unindex(key, old)
        else:
            self._namespaces.setdefault(key.namespace, {})[key] = None
        self._entries[key] = entry
        for index, values in zip(self._indexes.values(), entry.indexed, strict=True):
            _enter(index, values, key)
        return old

    def remove(self, key: Key) -> Entry[T] | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._unindex(key, entry)
            _discard(self._namespaces, key.namespace, key)
        return entry

    def _unindex(self, key: Key, entry: Entry[T]) -> None:
        for index, values in zip(self._indexes.values(), entry.indexed, strict=True):
            for one in values:
                _discard(index, one, key)


def _enter(index: dict[str, dict[Key, None]], values: Iterable[str], key: Key) -> None:
    for value in values:
        index.setdefault(value, {})[key] = None


def _discard(index: dict[str, dict[Key, None]], value: str, key: Key) -> None:
    members = index.get(value)
    if members is not None:
        members.pop(key, None)
        if not members:
            del index[value]


def label_index(label: str) -> Callable[[Snapshot], Iterable[str]]:
    """An index over one label's values."""
    return lambda snapshot: (snapshot.labels[label],) if label in snapshot.labels else ()
