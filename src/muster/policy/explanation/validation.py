"""Validates that a document has the structure in which templates are searched.

A server would refuse an invalid document, but this one was not sent to a server. The first part with a wrong type is reported,
with its path in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.machinery.objects import Object

_NOUNS: Final[Mapping[type, str]] = {dict: "an object", list: "a list", str: "a text"}
_Part = tuple[str, Any, type]
"""Path, value, and expected type."""


class InvalidDocument(ValueError):
    """The message contains the path, the expected and the actual type."""


def validate_document(document: Any) -> None:
    """Raises InvalidDocument."""
    if not isinstance(document, dict):
        raise InvalidDocument("an object is expected, with apiVersion and kind")
    for where, value, expected in _parts(document, ""):
        if value is not None and not isinstance(value, expected):
            raise InvalidDocument(f"{where}: {_NOUNS[expected]} is expected, and not {_described(value, expected)}")


def _described(value: Any, expected: type) -> str:
    if type(value) in _NOUNS:
        return _NOUNS[type(value)]
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{shown}; put it in quotes" if expected is str else shown


def _parts(document: Object, prefix: str) -> Iterator[_Part]:
    """Nested parts come after their parent, and only if that has the expected type."""
    yield from _metadata(document, prefix)
    kind, spec = document.get("kind"), document.get("spec")
    if kind not in ("Policy", "ConfigurationPolicy", "OperatorPolicy"):
        return
    yield f"{prefix}spec", spec, dict
    if not isinstance(spec, dict):
        return
    if kind == "Policy":
        yield from _items(spec, "policy-templates", prefix)
    elif kind == "ConfigurationPolicy":
        yield f"{prefix}spec.namespaceSelector", spec.get("namespaceSelector"), dict
        yield f"{prefix}spec.object-templates-raw", spec.get("object-templates-raw"), str
        yield from _items(spec, "object-templates", prefix)


def _metadata(document: Object, prefix: str) -> Iterator[_Part]:
    metadata = document.get("metadata")
    yield f"{prefix}metadata", metadata, dict
    for field, expected in (("name", str), ("namespace", str), ("labels", dict), ("annotations", dict)):
        yield f"{prefix}metadata.{field}", (metadata or {}).get(field), expected


def _items(spec: Object, field: str, prefix: str) -> Iterator[_Part]:
    items = spec.get(field)
    yield f"{prefix}spec.{field}", items, list
    for index, item in enumerate(items or ()):
        where = f"{prefix}spec.{field}[{index}]"
        if item is None:
            raise InvalidDocument(f"{where}: an object is expected, and not null")
        yield where, item, dict
        definition = item.get("objectDefinition")
        yield f"{where}.objectDefinition", definition, dict
        if definition and field == "policy-templates":
            yield from _parts(definition, f"{where}.objectDefinition.")
        elif definition:
            # Labels and annotations may each be a single template.
            yield from list(_metadata(definition, f"{where}.objectDefinition."))[:3]
