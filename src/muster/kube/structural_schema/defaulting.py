"""Defaults of a schema, filled in place.

Two passes, both compiled per schema into closures that visit only what matters. First, nulls go: a null where the schema neither
allows null nor has a default is removed from its object. Then defaults come: for every named field that is absent (or null without
being nullable) a copy of the default is put in, and the walk continues inside it. List items and map values that are null take the
default of the item schema.

Meant for self-contained schemas (those of custom resources): the walk over defaults is compiled eagerly.
Invariant: the result is a fixed point; defaulting twice changes nothing the second time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from muster.kube.schema_node import Schema

Walker = Callable[[Any], None]
_SCALARS: Final = (str, int, float, bool, type(None))


def default(obj: dict[str, Any], schema: Schema) -> None:
    """Drop nulls that are not allowed, then fill defaults."""
    defaulter(schema)(obj)


def defaulter(schema: Schema) -> Walker:
    """`default` for one schema, compiled."""
    compiled: Walker | None = schema.memo.get("default")
    if compiled is None:
        drop, fill = _compile_drop(schema), _compile_fill(schema)
        compiled = schema.memo["default"] = drop if fill is None else _in_turn(drop, fill)
    return compiled


def _in_turn(first: Walker, second: Walker) -> Walker:
    def run(value: Any) -> None:
        first(value)
        second(value)

    return run


def _default_of(schema: Schema) -> Any:
    return schema.raw.get("default")


class _Droppers(dict[str, Walker]):
    """Compiled children by field name, filled on first use; fields without a name in the schema share one, or are left alone."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self._schema = schema
        self._additional = schema.additional if schema.raw.get("additionalProperties") is not True else None

    def __missing__(self, name: str) -> Walker:
        named = self._schema.properties.get(name)
        if named is None:
            return self._unnamed
        child = self[name] = _compile_drop(named)
        return child

    @cached_property
    def _unnamed(self) -> Walker:
        return _leave if self._additional is None else _compile_drop(self._additional)

    @cached_property
    def item(self) -> Walker:
        return _leave if self._schema.items is None else _compile_drop(self._schema.items)

    def drops_null(self, name: str) -> bool:
        node = self._schema.properties.get(name, self._additional)
        return node is not None and not node.nullable and _default_of(node) is None


def _leave(value: Any) -> None:
    """What the schema does not describe stays as it is."""


def _compile_drop(schema: Schema) -> Walker:
    children = _Droppers(schema)

    def walk(value: Any) -> None:
        if value.__class__ is dict:
            doomed: list[str] | None = None
            for name, field in value.items():
                if field is None:
                    if children.drops_null(name):
                        doomed = [*(doomed or ()), name]
                elif field.__class__ is dict or field.__class__ is list:
                    children[name](field)
            if doomed is not None:
                for name in doomed:
                    del value[name]
        elif value.__class__ is list and schema.items is not None:
            child = children.item
            for item in value:
                if item.__class__ is dict or item.__class__ is list:
                    child(item)

    return walk


def _copier(value: Any) -> Callable[[], Any]:
    if isinstance(value, _SCALARS):
        return lambda: value
    return lambda: copy.deepcopy(value)


def _compile_fill(schema: Schema) -> Walker | None:
    """None when nothing at or below the node has a default."""
    defaults = [
        (name, _copier(_default_of(node)), node.nullable)
        for name, node in schema.properties.items()
        if _default_of(node) is not None
    ]
    children = [(name, inside) for name, node in schema.properties.items() if (inside := _compile_fill(node)) is not None]
    names = frozenset(schema.properties)
    additional = _compile_elements(schema.additional if schema.raw.get("additionalProperties") is not True else None)
    items = _compile_elements(schema.items)
    if not defaults and not children and additional is None and items is None:
        return None

    def walk(value: Any) -> None:
        if value.__class__ is dict:
            for name, make, nullable in defaults:
                if name not in value or (not nullable and value[name] is None):
                    value[name] = make()
            for name, child in children:
                field = value.get(name)
                if field.__class__ is dict or field.__class__ is list:
                    child(field)
            if additional is not None:
                for name, field in value.items():
                    if name not in names:
                        value[name] = additional(field)
        elif items is not None and value.__class__ is list:
            for index, item in enumerate(value):
                value[index] = items(item)

    return walk


def _compile_elements(schema: Schema | None) -> Callable[[Any], Any] | None:
    """Map values and list items: a null takes the element's default, anything else is defaulted inside."""
    if schema is None:
        return None
    fill = _compile_fill(schema)
    fallback = _default_of(schema)
    if fill is None and fallback is None:
        return None
    make = _copier(fallback)
    replace_null = fallback is not None and not schema.nullable

    def element(value: Any) -> Any:
        if value is None and replace_null:
            value = make()
        if fill is not None and (value.__class__ is dict or value.__class__ is list):
            fill(value)
        return value

    return element
