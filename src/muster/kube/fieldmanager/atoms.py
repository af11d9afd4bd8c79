"""Schemas for merging, as structured-merge-diff's `schema.Atom`: every node is a scalar, a list or a map (or any of them), with its
merge semantics.

An `Atom` is made from a `Schema` node on first use and cached with it. A list is atomic (one value), a set, or keyed; a map is
atomic or granular, with known fields, and perhaps an atom for every other key. Without a schema, the atom is deduced from the
value: maps are granular, lists are atomic. Custom resources get the metadata of every object.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from muster.kube.schema_node import Schema

NUMERIC: Final = "numeric"
STRING: Final = "string"
BOOLEAN: Final = "boolean"
UNTYPED: Final = "untyped"

_SCALARS: Final = {"integer": NUMERIC, "number": NUMERIC, "boolean": BOOLEAN}


class ListAtom:
    """`keys` is empty for a set; both are meaningless where `atomic`."""

    def __init__(self, atomic: bool, keys: tuple[str, ...], element: Atom, defaults: Mapping[str, Any]) -> None:
        self.atomic = atomic
        self.keys = keys
        self.element = element
        self.defaults = defaults


class MapAtom:
    """`fields` are the names the schema declares, `element` the atom of all other keys (None: there are none)."""

    def __init__(self, atomic: bool, fields: Mapping[str, Atom], element: Atom | None) -> None:
        self.atomic = atomic
        self.fields = fields
        self.element = element

    def child(self, key: str) -> Atom:
        return self.fields.get(key) or self.element or DEDUCED


class Atom:
    """The kinds of value of a node. More than one only if the schema permits it."""

    scalar: str | None = None
    list: ListAtom | None = None
    map: MapAtom | None = None


class _SchemaAtom(Atom):
    def __init__(self, schema: Schema, preserve: bool, root: bool) -> None:
        self._schema = schema
        self._preserve = preserve or schema.preserve_unknown
        self._root = root or schema.embedded_resource
        kind = schema.type
        if schema.name.endswith(".Quantity"):
            self.scalar, self.list, self.map = UNTYPED, None, None
        elif schema.name.endswith(".RawExtension"):
            self.scalar, self.list, self.map = UNTYPED, ATOMIC.list, ATOMIC.map
        elif kind == "object" or (root and not kind):
            self.list = None
        elif kind == "array":
            self.map = None
        elif kind:
            self.scalar, self.list, self.map = _scalar(kind, schema.raw.get("format", "")), None, None
        else:
            self.scalar = UNTYPED

    @cached_property
    def list(self) -> ListAtom | None:  # type: ignore[override]
        schema = self._schema
        associative, keys = _list_kind(schema)
        if schema.items is None:
            return ListAtom(not associative, keys, ATOMIC, {})
        return ListAtom(not associative, keys, self._below(schema.items), _key_defaults(schema.items, keys))

    @cached_property
    def map(self) -> MapAtom | None:  # type: ignore[override]
        schema = self._schema
        fields = {name: self._below(child) for name, child in schema.properties.items()}
        if self._root and "managedFields" not in _property_names(schema.properties.get("metadata")):
            fields |= OBJECT_FIELDS
        element: Atom | None = None
        if schema.additional is not None:
            element = self._below(schema.additional) if schema.raw["additionalProperties"] is not True else DEDUCED
        elif schema.raw.get("additionalProperties") is None and (self._preserve or not schema.properties):
            element = DEDUCED
        return MapAtom(schema.atomic_map, fields, element)

    def _below(self, schema: Schema) -> Atom:
        # A named type does not inherit "preserve unknown fields"; an inlined one does.
        return atom_of(schema, self._preserve and not schema.name)


def _property_names(schema: Schema | None) -> Mapping[str, Any]:
    return {} if schema is None else schema.properties


def _scalar(kind: str, form: str) -> str:
    if kind == "string":
        return STRING if form in ("", "byte") else UNTYPED
    return _SCALARS.get(kind, UNTYPED)


def _list_kind(schema: Schema) -> tuple[bool, tuple[str, ...]]:
    """Whether items are owned separately, and their keys. Old types have only a patch strategy."""
    stated = schema.raw.get("x-kubernetes-list-type")
    if stated == "map":
        return True, schema.list_map_keys
    if stated is not None:
        return stated == "set", ()
    if "merge" in schema.patch_strategies:
        return True, (schema.patch_merge_key,) if schema.patch_merge_key else ()
    return False, ()


def _key_defaults(item: Schema, keys: tuple[str, ...]) -> dict[str, Any]:
    """Defaults of missing keys of an item. A string that Go structs always have (built-in types, by name) is empty then."""
    defaults: dict[str, Any] = {}
    always = set(item.raw.get("required", ())) if item.name else set()
    if item.name.endswith(".LocalObjectReference"):
        always.add("name")
    for key in keys:
        child = item.properties.get(key)
        if child is None:
            continue
        if child.raw.get("default") is not None:
            defaults[key] = child.raw["default"]
        elif key in always and child.type == "string":
            defaults[key] = ""
    return defaults


def atom_of(schema: Schema, preserve: bool = False, *, root: bool = False) -> Atom:
    """The atom of a schema node; `root` marks the schema of a whole object."""
    key = f"atom {preserve:d}{root:d}"
    found: Atom | None = schema.memo.get(key)
    if found is None:
        found = schema.memo[key] = _SchemaAtom(schema, preserve, root)
    return found


ATOMIC: Final = Atom()
ATOMIC.scalar = UNTYPED
ATOMIC.map = MapAtom(True, {}, ATOMIC)
ATOMIC.list = ListAtom(True, (), ATOMIC, {})
DEDUCED: Final = Atom()
DEDUCED.scalar = UNTYPED
DEDUCED.map = MapAtom(False, {}, DEDUCED)
DEDUCED.list = ListAtom(True, (), ATOMIC, {})


def _object_meta() -> Schema:
    text, number, time = {"type": "string"}, {"type": "integer"}, {"type": "string", "format": "date-time"}
    texts = {"type": "object", "additionalProperties": text}
    owner = {
        "type": "object",
        "properties": dict.fromkeys(("apiVersion", "kind", "name", "uid"), text)
        | {name: {"type": "boolean"} for name in ("blockOwnerDeletion", "controller")},
        "x-kubernetes-map-type": "atomic",
    }
    entry = {
        "type": "object",
        "properties": dict.fromkeys(("apiVersion", "fieldsType", "manager", "operation", "subresource"), text)
        | {"fieldsV1": {"type": "object"}, "time": time},
    }
    return Schema(
        {
            "type": "object",
            "properties": dict.fromkeys(("generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"), text)
            | dict.fromkeys(("annotations", "labels"), texts)
            | dict.fromkeys(("deletionGracePeriodSeconds", "generation"), number)
            | dict.fromkeys(("creationTimestamp", "deletionTimestamp"), time)
            | {
                "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                "managedFields": {"type": "array", "items": entry},
                "ownerReferences": {
                    "type": "array",
                    "items": owner,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                },
            },
        }
    )


_TEXT: Final = atom_of(Schema({"type": "string"}))
OBJECT_FIELDS: Final[Mapping[str, Atom]] = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": atom_of(_object_meta())}
