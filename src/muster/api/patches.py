"""Changes of typed objects as JSON merge patches that lose nothing.

Given an object as it was read and the same object with fields replaced, the difference of the known fields is laid over the
received document, and the merge patch between the two documents is what gets sent. A merge patch replaces lists whole, so list
elements are paired first, keyed lists by their keys and others by equality and then by place, and each pair is laid over the
element as received. Invariant: applying the patch to what was received gives a document that decodes to the changed object and in
which every unknown field of every surviving object and element is still there. Merge patches cannot say `null`: a change that
puts one into a free-form part has to be written by update or server-side apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from muster.api.resource import Document, Record, TypedObject, default_of, fields_of, known_fields, required_fields
from muster.api.structural import object_schema
from muster.kube.patching.mergepatch import merge_patch_between

_R = TypeVar("_R", bound=TypedObject)


def merge_patch(before: _R, after: _R) -> Document:
    """The JSON merge patch that turns what `before` was read from into `after`; empty when nothing changed."""
    # Read once, so that what is not changed is the same object on both sides and need not be compared.
    received = before.document()
    return merge_patch_between(received, _overlay_record(received, before, after))


def changed_document(before: _R, after: _R) -> Document:
    """What `before` was read from, with the known fields of `after`."""
    return _overlay_record(before.document(), before, after)


def _overlay(received: Any, old: Any, new: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(new, Record) and type(old) is type(new) and isinstance(received, dict):
        return _overlay_record(received, old, new)
    if isinstance(new, Mapping) and isinstance(old, Mapping) and isinstance(received, dict):
        return {name: _overlay(received.get(name), old.get(name), value, ()) for name, value in new.items()}
    if isinstance(new, tuple) and isinstance(old, tuple) and isinstance(received, list) and len(received) == len(old):
        return _overlay_list(received, old, new, keys)
    return known_fields(new)


def _overlay_record(received: Document, old: Record, new: Record) -> Document:
    result = dict(received)
    lists, required = _keys_of_lists(type(new)), required_fields(type(new))
    for field in fields_of(type(new)):
        name, before, after = field.encode_name, getattr(old, field.name), getattr(new, field.name)
        if before == after:
            continue
        to_default = field.name not in required and after == default_of(field)
        if to_default and not isinstance(after, Record):
            result.pop(name, None)
            continue
        result[name] = _overlay(received.get(name), before, after, lists.get(name, ()))
        if to_default and not result[name]:
            del result[name]
    return result


@cache
def _keys_of_lists(cls: type[Record]) -> Mapping[str, tuple[str, ...]]:
    properties: Mapping[str, Any] = object_schema(cls).get("properties", {})
    return {name: tuple(below.get("x-kubernetes-list-map-keys", ())) for name, below in properties.items()}


def _overlay_list(received: list[Any], old: tuple[Any, ...], new: tuple[Any, ...], keys: tuple[str, ...]) -> list[Any]:
    return [
        known_fields(value) if index is None else _overlay_element(received[index], old[index], value)
        for value, index in zip(new, _partners(old, new, keys), strict=True)
    ]


def _overlay_element(received: Any, old: Any, new: Any) -> Any:
    return received if old == new else _overlay(received, old, new, ())


def _partners(old: tuple[Any, ...], new: tuple[Any, ...], keys: tuple[str, ...]) -> list[int | None]:
    """For each new element the index of the old one it continues."""
    if keys:
        places = {_identity(element, keys): index for index, element in enumerate(old)}
        return [places.get(_identity(element, keys)) for element in new]
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


def _identity(element: Record, keys: tuple[str, ...]) -> tuple[Any, ...]:
    wire_names = {field.encode_name: field.name for field in fields_of(type(element))}
    return tuple(getattr(element, wire_names[key]) for key in keys)
