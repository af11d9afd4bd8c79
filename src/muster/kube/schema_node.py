"""One schema node for every walker: built-in types and custom resources look the same to patch, apply, prune and decode code.

A `Schema` wraps one OpenAPI v3 node lazily: children are made on first access and kept, `$ref` is followed through the
`Definitions` the node came from, so a recursive type costs nothing until it is walked. Nodes are immutable and shared by all
logical clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

_REF_PREFIX = "#/components/schemas/"


class Definitions:
    """Named schemas that `$ref` each other, for example all built-in types."""

    def __init__(self, raw: Mapping[str, Mapping[str, Any]]) -> None:
        self.raw = raw
        self._nodes: dict[str, Schema] = {}

    def __getitem__(self, name: str) -> Schema:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Schema(self.raw[name], self, name)
        return node

    def __contains__(self, name: str) -> bool:
        return name in self.raw


class Schema:
    """One node. An absent `type` means "anything". `name` is the definition's name for named types, else empty."""

    def __init__(self, raw: Mapping[str, Any], definitions: Definitions | None = None, name: str = "") -> None:
        self.raw = raw
        self.definitions = definitions
        self.name = name
        self.memo: dict[str, Any] = {}
        """Data that walkers compiled for this node, by walker, with the lifetime of the node."""

    def _child(self, raw: Mapping[str, Any]) -> Schema:
        """The node for a nested schema. Built-in documents write `{allOf: [{$ref: X}], default: …}`: the reference is
        followed and the siblings (defaults, list and patch extensions) are laid over it."""
        reference = raw.get("$ref")
        if reference is None and self.definitions is not None and len(raw.get("allOf", ())) == 1:
            reference = raw["allOf"][0].get("$ref")
        if reference is None or self.definitions is None:
            return Schema(raw, self.definitions)
        target = self.definitions[reference.removeprefix(_REF_PREFIX)]
        siblings = {k: v for k, v in raw.items() if k not in ("$ref", "allOf", "description")}
        if not siblings:
            return target
        return Schema({**target.raw, **siblings}, self.definitions, target.name)

    @cached_property
    def type(self) -> str:
        kind: str = self.raw.get("type", "")
        return kind

    @cached_property
    def properties(self) -> Mapping[str, Schema]:
        return {name: self._child(raw) for name, raw in self.raw.get("properties", {}).items()}

    @cached_property
    def items(self) -> Schema | None:
        raw = self.raw.get("items")
        return None if raw is None else self._child(raw)

    @cached_property
    def additional(self) -> Schema | None:
        """Schema of the values of a free-form map; None if the type is not one. `additionalProperties: true` gives any."""
        raw = self.raw.get("additionalProperties")
        if raw is None or raw is False:
            return None
        return Schema({}, self.definitions) if raw is True else self._child(raw)

    @cached_property
    def preserve_unknown(self) -> bool:
        return bool(self.raw.get("x-kubernetes-preserve-unknown-fields", False))

    @cached_property
    def embedded_resource(self) -> bool:
        return bool(self.raw.get("x-kubernetes-embedded-resource", False))

    @cached_property
    def int_or_string(self) -> bool:
        return bool(self.raw.get("x-kubernetes-int-or-string", False)) or self.raw.get("format") == "int-or-string"

    @cached_property
    def nullable(self) -> bool:
        return bool(self.raw.get("nullable", False))

    @cached_property
    def list_type(self) -> str:
        """`atomic`, `set` or `map`; the default is atomic."""
        kind: str = self.raw.get("x-kubernetes-list-type", "atomic")
        return kind

    @cached_property
    def list_map_keys(self) -> tuple[str, ...]:
        return tuple(self.raw.get("x-kubernetes-list-map-keys", ()))

    @cached_property
    def atomic_map(self) -> bool:
        return self.raw.get("x-kubernetes-map-type") == "atomic"

    @cached_property
    def patch_strategies(self) -> tuple[str, ...]:
        text: str = self.raw.get("x-kubernetes-patch-strategy", "")
        return tuple(text.split(",")) if text else ()

    @cached_property
    def patch_merge_key(self) -> str:
        key: str = self.raw.get("x-kubernetes-patch-merge-key", "")
        return key

    @property
    def has_default(self) -> bool:
        return "default" in self.raw
