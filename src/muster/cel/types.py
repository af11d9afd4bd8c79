"""CEL types: what the checker reasons about and what `type(x)` returns at run time.

A type is a kind, a name and parameters; two types are the same when these agree. Struct types also know their
fields, which take no part in comparison: the name stands for them. Types are immutable and shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


class Type:
    __slots__ = ("_hash", "fields", "kind", "name", "params")

    def __init__(self, kind: str, name: str, params: tuple[Type, ...] = (), fields: Mapping[str, Type] | None = None) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.fields = fields
        self._hash = hash((kind, name, params))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Type) and self.kind == other.kind and self.name == other.name and self.params == other.params

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """As error messages print it."""
        name = _PRINTED.get(self.kind, self.name)
        if not self.params:
            return name
        return f"{name}({', '.join(map(str, self.params))})"

    def __repr__(self) -> str:
        return f"<Type {self}>"


_PRINTED = {"timestamp": "timestamp", "duration": "duration", "error": "!error!", "null": "null"}

BOOL: Final = Type("bool", "bool")
INT: Final = Type("int", "int")
UINT: Final = Type("uint", "uint")
DOUBLE: Final = Type("double", "double")
STRING: Final = Type("string", "string")
BYTES: Final = Type("bytes", "bytes")
NULL: Final = Type("null", "null_type")
DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "!error!")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TYPE: Final = Type("type", "type")
# The run-time names of parameterised types, which carry no parameters in `type(x)`.
LIST: Final = Type("list", "list")
MAP: Final = Type("map", "map")
OPTIONAL: Final = Type("opaque", "optional_type")


def list_type(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_type(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_type(of: Type) -> Type:
    return Type("type", "type", (of,))


def opaque(name: str, *params: Type) -> Type:
    return Type("opaque", name, params)


def param(name: str) -> Type:
    return Type("param", name)


def struct_type(name: str, fields: Mapping[str, Type]) -> Type:
    return Type("struct", name, (), fields)


def is_optional(type_: Type) -> bool:
    return type_.kind == "opaque" and type_.name == "optional_type"


def signature(arguments: list[Type], member: bool) -> str:
    """`(int, string)`, or `list(int).(string)` for a method."""
    shown = [str(argument) for argument in arguments]
    if member:
        return f"{shown[0]}.({', '.join(shown[1:])})"
    return f"({', '.join(shown)})"
