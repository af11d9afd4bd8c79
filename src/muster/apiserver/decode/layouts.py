"""The Go struct layouts of the built-in types as Python objects, created per type on first use.

`Layout` is one struct: its JSON fields with inlined structs flattened (as in JSON), and its protobuf fields with inlined structs as
nested messages (as on the wire). `TypeExpr` is the type of a field. Both are immutable and shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from muster.apiserver.registry.builtin_types import struct_layouts

_POINTER, _OMIT_EMPTY, _OMIT_ZERO, _INLINE = 1, 2, 4, 8
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
META_KINDS: Final = frozenset({"CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions"})


@dataclass(frozen=True, slots=True, eq=False)
class TypeExpr:
    """`kind` is string, bool, int32, int64, float64, bytes, list, map, struct or special; `item` is set for list and map,
    `name` is the struct's or special type's definition name."""

    kind: str
    go: str
    name: str = ""
    item: TypeExpr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    json: str
    number: int
    type: TypeExpr
    pointer: bool
    omit_empty: bool
    omit_zero: bool
    inline: bool


def _go_name(definition: str) -> str:
    """`io.k8s.api.core.v1.Pod` → `v1.Pod`."""
    return ".".join(definition.rsplit(".", 2)[-2:])


@cache
def _expr(index: int) -> TypeExpr:
    kind, *rest = struct_layouts()["exprs"][index]
    if kind in ("struct", "special"):
        return TypeExpr(kind, _go_name(rest[0]), rest[0])
    if kind in ("list", "map"):
        item = _expr(rest[0])
        return TypeExpr(kind, rest[1] or ("[]" if kind == "list" else "map[string]") + item.go, "", item)
    return TypeExpr(kind, rest[0])


class Layout:
    """One struct type."""

    def __init__(self, name: str, raw: list[list[Any]]) -> None:
        self.name = name
        self.go = _go_name(name)
        self.fields = tuple(
            Field(
                json,
                number,
                _expr(expr),
                bool(flags & _POINTER),
                bool(flags & _OMIT_EMPTY),
                bool(flags & _OMIT_ZERO),
                bool(flags & _INLINE),
            )
            for json, number, expr, flags in raw
        )

    @cached_property
    def json_fields(self) -> dict[str, Field]:
        """The fields by JSON name, including those of inlined structs."""
        found: dict[str, Field] = {}
        for field in self.fields:
            if field.inline:
                found.update(layout(field.type.name).json_fields)
            else:
                found[field.json] = field
        return found


@cache
def layout(name: str) -> Layout:
    """The layout of a type by its definition name. Raises KeyError if it is not a built-in struct."""
    return Layout(name, struct_layouts()["types"][name])


def has_layout(name: str) -> bool:
    return name in struct_layouts()["types"]


def definition_of(group: str, version: str, kind: str) -> str | None:
    """The definition name of a kind. The kinds of options exist in every group."""
    if kind in META_KINDS:
        return META + kind
    kinds: dict[str, str] = struct_layouts()["kinds"]
    found = kinds.get(f"{group}/{version}/{kind}")
    return found if found is not None or group else kinds.get(f"meta.k8s.io/{version}/{kind}")
