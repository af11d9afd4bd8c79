"""Identifiers: of resources (`GVR`), of objects of one resource (`ObjectKey`) or of any (`ObjectRef`), and their URL paths.

A `GVR` is declared once as a constant; nothing here uses discovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import orjson

Object = dict[str, Any]
"""A Kubernetes object as JSON."""
_DOT_SEGMENTS = frozenset((".", ".."))
"""Segments that HTTP clients resolve in paths."""


class ObjectKey(NamedTuple):
    """An object of a known resource; `namespace` is empty for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class GVR:
    """Group, version and resource, with the kind and the scope, as in a RESTMapping."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, or of a collection if no name is given."""
        if name in _DOT_SEGMENTS or namespace in _DOT_SEGMENTS:
            raise ValueError(f"{name or namespace!r} names nothing: it would lead to another place")
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        elif name and self.namespaced:
            raise ValueError(f"{self.plural} live in namespaces: none was given for {name!r}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    @staticmethod
    def decode(data: bytes | Mapping[str, Any]) -> Object:
        """An object of this resource, which for a GVR is a document. A document is not copied."""
        return cast(Object, orjson.loads(data) if isinstance(data, bytes) else data)

    @staticmethod
    def encode(obj: Object) -> bytes:
        return orjson.dumps(obj)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object of a cluster."""

    resource: GVR
    namespace: str
    """Empty for cluster-scoped kinds, whatever a manifest contains."""
    name: str

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


def key_of(obj: Object) -> ObjectKey:
    metadata = obj["metadata"]
    return ObjectKey(metadata.get("namespace") or "", metadata["name"])
