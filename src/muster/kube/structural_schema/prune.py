"""Removing what a schema does not name, in place, and telling which fields those were.

A schema node is compiled once into a closure that walks a value; children are compiled when a value first reaches them, so that a
recursive built-in type costs nothing until used. A closure returns None when everything was known, else the removed paths relative
to its own value; parents put their own step in front. The happy path therefore builds no path at all.

Invariants: pruning twice removes nothing the second time; `x-kubernetes-preserve-unknown-fields` keeps unknown fields but still
prunes inside fields that are named below it; `apiVersion`, `kind` and `metadata` of a resource (root or embedded) stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from muster.kube.schema_node import Schema

Pruner = Callable[[Any], "list[str] | None"]
_META: Final = frozenset({"apiVersion", "kind", "metadata"})


def prune(obj: dict[str, Any], schema: Schema) -> list[str]:
    """Remove unknown fields of a resource; returns their sorted paths such as `spec.containers[0].imagePullPolicie`."""
    return pruner(schema)(obj)


def pruner(schema: Schema) -> Callable[[dict[str, Any]], list[str]]:
    """`prune` for one schema, compiled."""
    compiled: Callable[[dict[str, Any]], list[str]] | None = schema.memo.get("prune")
    if compiled is None:
        compiled = schema.memo["prune"] = _root(_compile(schema, keep_meta=True))
    return compiled


def _root(walk: Pruner) -> Callable[[dict[str, Any]], list[str]]:
    def run(obj: dict[str, Any]) -> list[str]:
        removed = walk(obj)
        return [] if removed is None else sorted(path[1:] for path in removed)

    return run


def prune_value(value: Any, schema: Schema) -> list[str]:
    """Prune a value that is not itself a resource, for example a default."""
    removed = _compile(schema, keep_meta=schema.embedded_resource)(value)
    return [] if removed is None else sorted(path.removeprefix(".") for path in removed)


def unknown_field(path: str) -> str:
    """How strict decoding names a removed field."""
    return f'unknown field "{path}"'


class _Children(dict[str, "Pruner | None"]):
    """Compiled children by field name, filled on first use; a name the schema does not know stays absent."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self._schema = schema
        self._properties = schema.properties

    def __missing__(self, name: str) -> Pruner | None:
        node = self._properties.get(name)
        if node is None:
            return None
        child = self[name] = _compile(node, keep_meta=node.embedded_resource)
        return child

    @cached_property
    def unnamed(self) -> Pruner:
        """For fields whose names `additionalProperties` allows."""
        node = None if self._schema.raw.get("additionalProperties") is True else self._schema.additional
        return _drop_everything if node is None else _compile(node, keep_meta=node.embedded_resource)

    @cached_property
    def item(self) -> Pruner:
        """For the items of a list."""
        node, keep_unknown = self._schema.items, self._schema.preserve_unknown
        if node is None:
            return _leave if keep_unknown else _drop_everything
        below = _preserving(node) if keep_unknown and not node.preserve_unknown else node
        return _compile(below, keep_meta=node.embedded_resource)


def _compile(schema: Schema, keep_meta: bool) -> Pruner:
    keep_unknown = schema.preserve_unknown
    children = _Children(schema)
    anything_allowed = schema.raw.get("additionalProperties") is not None

    def walk(value: Any) -> list[str] | None:
        removed: list[str] | None = None
        if value.__class__ is dict:
            doomed: list[str] | None = None
            for name, field in value.items():
                child = children[name]
                if child is None:
                    if keep_meta and name in _META:
                        continue
                    if anything_allowed:
                        child = children.unnamed
                    elif keep_unknown:
                        continue
                    else:
                        if doomed is None:
                            doomed = []
                        doomed.append(name)
                        continue
                elif keep_meta and name in _META:
                    continue
                if field.__class__ is dict or field.__class__ is list:
                    below = child(field)
                    if below is not None:
                        removed = removed or []
                        removed.extend(f".{name}{path}" for path in below)
            if doomed is not None:
                for name in doomed:
                    del value[name]
                removed = removed or []
                removed.extend(f".{name}" for name in doomed)
        elif value.__class__ is list and value:
            return _prune_items(value, children.item)
        return removed

    return walk


def _prune_items(values: list[Any], child: Pruner) -> list[str] | None:
    removed: list[str] | None = None
    for index, item in enumerate(values):
        if item.__class__ is dict or item.__class__ is list:
            below = child(item)
            if below is not None:
                removed = removed or []
                removed.extend(f"[{index}]{path}" for path in below)
    return removed


def _preserving(schema: Schema) -> Schema:
    """Items of a list that preserves unknown fields preserve them too."""
    return Schema({**schema.raw, "x-kubernetes-preserve-unknown-fields": True}, schema.definitions, schema.name)


def _drop_everything(value: Any) -> list[str] | None:
    """Where the schema says nothing about a value, no field of it is known."""
    if value.__class__ is dict:
        names = [f".{name}" for name in value]
        value.clear()
        return names or None
    removed = [f"[{index}]{path}" for index, item in enumerate(value) for path in _dropped(item)]
    return removed or None


def _dropped(item: Any) -> list[str]:
    return (_drop_everything(item) or []) if item.__class__ in (dict, list) else []


def _leave(value: Any) -> list[str] | None:
    return None
