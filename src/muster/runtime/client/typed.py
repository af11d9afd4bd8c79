"""Kinds as parameters of the verbs: a `GVR`, whose objects are JSON documents, or a type of `muster.api`.

Both implement `Kind`, a GVR as a value and a type as the class itself, so that one signature has the right result type for both,
and `WritableKind` the right parameter type; type checkers verify callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, TypeVar, cast

import orjson

from muster.api import resource as api
from muster.machinery.objects import GVR, Object

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Kind(Protocol[T_co]):
    """Reads objects that are `T_co`."""

    def decode(self, data: bytes | Mapping[str, Any]) -> T_co: ...


class WritableKind(Protocol[T]):
    """Reads and writes objects that are `T` and nothing else."""

    def decode(self, data: bytes | Mapping[str, Any]) -> T: ...

    def encode(self, obj: T) -> bytes: ...


@cache
def served(kind: type[api.TypedObject]) -> GVR:
    """The GVR of a typed kind."""
    resource = kind.resource
    return GVR(resource.api_version, resource.plural, resource.kind, namespaced=resource.scope == "Namespaced")


def gvr_of(kind: Kind[Any]) -> GVR:
    if isinstance(kind, GVR):
        return kind
    if isinstance(kind, type) and issubclass(kind, api.TypedObject):
        return served(kind)
    raise TypeError(f"{kind!r} is neither a GVR nor a kind of muster.api")


def document_of(kind: WritableKind[T], obj: T | Object) -> Object:
    """An object as a document; an existing document is not copied."""
    return obj if isinstance(obj, dict) else cast(Object, orjson.loads(kind.encode(obj)))


def namespace_of(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("namespace") or "")
