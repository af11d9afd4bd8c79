"""The stored form of an object, and cheap views of it.

An object is stored as JSON bytes that always start with `{"kind":K,"apiVersion":V,"metadata":{"resourceVersion":"N",…`. GET answers
these bytes unchanged; a list item of a built-in type is the same bytes without the type prefix; a metadata-only answer is one
slice. What readers need often (labels, table cells, the decoded object) is parsed at most once and cached on the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from muster.machinery.golang import json as gojson
from muster.machinery.objects import GVR, Object
from muster.store.api import Entry

_NO_LABELS: Mapping[str, str] = {}


class OwnerReference(msgspec.Struct, gc=False):
    uid: str = ""
    kind: str = ""
    name: str = ""
    apiVersion: str = ""
    blockOwnerDeletion: bool = False
    controller: bool = False


class Metadata(msgspec.Struct, gc=False):
    """The metadata that the server itself reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[OwnerReference] | None = None
    deletionTimestamp: str | None = None
    creationTimestamp: str | None = None


class _Envelope(msgspec.Struct, gc=False):
    metadata: Metadata


class _RawEnvelope(msgspec.Struct, gc=False):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_Envelope).decode
_decode_raw = msgspec.json.Decoder(_RawEnvelope).decode


class View:
    """The cached views of one entry."""

    __slots__ = ("cells", "labels", "object", "rendered", "rendered_for")

    def __init__(self) -> None:
        self.labels: Mapping[str, str] | None = None
        self.object: Object | None = None
        self.cells: Any = None
        self.rendered: bytes | None = None
        self.rendered_for: object = None


def view(entry: Entry) -> View:
    found = entry.memo
    if found is None:
        found = entry.memo = View()
    assert isinstance(found, View)
    return found


def metadata(entry: Entry) -> Metadata:
    return _decode_metadata(entry.value).metadata


def raw_metadata(value: bytes) -> bytes:
    """The bytes of the `metadata` object inside `value`."""
    return bytes(_decode_raw(value).metadata)


def labels(entry: Entry) -> Mapping[str, str]:
    seen: View = entry.memo if entry.memo is not None else view(entry)
    found = seen.labels
    if found is None:
        found = seen.labels = metadata(entry).labels or _NO_LABELS
    return found


def decode(entry: Entry) -> Object:
    """A private copy of the object."""
    decoded: Object = orjson.loads(entry.value)
    return decoded


def shared(entry: Entry) -> Object:
    """The decoded object, cached and shared: callers must not change it."""
    seen = view(entry)
    if seen.object is None:
        seen.object = orjson.loads(entry.value)
    return seen.object


def stored(resource: GVR) -> str:
    """The name of a resource in the store."""
    return f"{resource.group}/{resource.plural}"


def object_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class TooLargeToStore(ValueError):
    """The object exceeds etcd's limit."""


def encoder(
    obj: Object, prefix: bytes, limit: int | None = None, dumps: Callable[[Object], bytes] = gojson.dumps
) -> Callable[[int], bytes]:
    """A function from the revision to the stored bytes of the object. `prefix` is the `type_prefix` of the resource."""
    meta = obj["metadata"]
    meta.pop("resourceVersion", None)
    meta_bytes = orjson.dumps(meta)
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    other = dumps(rest) if rest else b"}"
    head = prefix + b'"metadata":{"resourceVersion":"'
    # Checked before concatenation: the object may be a hundred times the limit, and a copy would block the loop.
    if limit is not None and len(head) + len(meta_bytes) + len(other) + 1 > limit:
        raise TooLargeToStore
    tail = b'",' + meta_bytes[1:] + (b"," + other[1:] if rest else other)
    return lambda revision: head + b"%d" % revision + tail


def encode(obj: Object) -> bytes:
    """Encode an object that is not stored (dry run, review, conversion result)."""
    return gojson.dumps(obj)
