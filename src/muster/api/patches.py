"""Changes of typed objects as JSON merge patches that lose nothing.

Given an object as it was read and the same object with fields replaced, the difference of the known fields is laid over the
received document, and the merge patch between the two documents is what gets sent. A merge patch replaces lists whole, so list
elements are paired first, keyed lists by their keys and others by equality and then by place, and each pair is laid over the
element as received. Invariant: applying the patch to what was received gives a document that decodes to the changed object and in
which every unknown field of every surviving object and element is still there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from muster.api.resource import Document, Resource, known_fields
from muster.api.structural import object_schema

_R = TypeVar("_R", bound=Resource)
_ABSENT: Any = object()


def merge_patch(before: _R, after: _R) -> Document:
    """The JSON merge patch that turns what `before` was read from into `after`; empty when nothing changed."""
    return _difference(before.document(), changed_document(before, after))


def changed_document(before: _R, after: _R) -> Document:
    """What `before` was read from, with the known fields of `after`."""
    schema = object_schema(type(before))
    document: Document = _overlay(before.document(), known_fields(before), known_fields(after), schema)
    return document


def _overlay(received: Any, old: Any, new: Any, schema: Mapping[str, Any]) -> Any:
    if old == new:
        return received
    if isinstance(received, dict) and isinstance(old, dict) and isinstance(new, dict):
        return _overlay_object(received, old, new, schema)
    if isinstance(received, list) and isinstance(old, list) and isinstance(new, list) and len(received) == len(old):
        return _overlay_list(received, old, new, schema)
    return new


def _overlay_object(received: Document, old: Document, new: Document, schema: Mapping[str, Any]) -> Document:
    result = {name: value for name, value in received.items() if name in new or name not in old}
    properties = schema.get("properties") or {}
    for name, value in new.items():
        below = properties.get(name) or schema.get("additionalProperties") or {}
        result[name] = _overlay(received.get(name), old.get(name, _ABSENT), value, below) if name in received else value
    return result


def _overlay_list(received: list[Any], old: list[Any], new: list[Any], schema: Mapping[str, Any]) -> list[Any]:
    below = schema.get("items") or {}
    partners = _partners(old, new, schema.get("x-kubernetes-list-map-keys"), below)
    return [
        value if index is None else _overlay(received[index], old[index], value, below)
        for value, index in zip(new, partners, strict=True)
    ]


def _partners(old: list[Any], new: list[Any], keys: list[str] | None, below: Mapping[str, Any]) -> list[int | None]:
    """For each new element the index of the old one it continues."""
    if keys:
        defaults = {key: (below["properties"].get(key) or {}).get("default") for key in keys}
        places = {_identity(element, defaults): index for index, element in enumerate(old)}
        return [places.get(_identity(element, defaults)) for element in new]
    free = list(range(len(old)))
    partners: list[int | None] = []
    for element in new:
        match = next((index for index in free if old[index] == element), None)
        if match is not None:
            free.remove(match)
        partners.append(match)
    if len(old) == len(new):
        rest = iter(free)
        partners = [next(rest) if index is None else index for index in partners]
    return partners


def _identity(element: Any, defaults: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(element.get(key, value) for key, value in defaults.items())


def _difference(old: Document, new: Document) -> Document:
    patch: Document = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if isinstance(value, dict) and isinstance(before, dict):
            if below := _difference(before, value):
                patch[name] = below
        elif before is _ABSENT or before != value or type(before) is not type(value):
            patch[name] = value
    return patch
