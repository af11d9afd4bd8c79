"""Go's values as Python values.

Templates distinguish Go's types: an `int` is not an `int64`, a `map[string]string` is not a `map[string]interface {}`, and an
absent key is not nil. The plain Python types represent the most common ones: `str` string, `bool` bool, `int` int, `float` float64,
`complex` complex128, `list`/`tuple` []interface {}, `dict` map[string]interface {}, `bytes` []byte, `None` nil. Subclasses below
represent the other types; they behave as their bases, so Python code can ignore them.

A Go string is bytes; its representation as a `str`, and the rule for joining strings, is in `machinery.golang.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final


class Missing:
    """The type of `MISSING`, Go's "no value": the value of an absent map key."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "<no value>"


MISSING: Final = Missing()


class Int8(int):
    go_type = "int8"


class Int16(int):
    go_type = "int16"


class Int32(int):
    go_type = "int32"


class Int64(int):
    go_type = "int64"


class Uint(int):
    go_type = "uint"


class Uint8(int):
    go_type = "uint8"


class Uint16(int):
    go_type = "uint16"


class Uint32(int):
    go_type = "uint32"


class Uint64(int):
    go_type = "uint64"


class Float32(float):
    go_type = "float32"


class Slice(list[Any]):
    """A slice whose element type is not interface {}, or a nil slice."""

    __slots__ = ("go_type", "is_nil")

    def __init__(self, items: Iterable[Any] = (), go_type: str = "[]string", is_nil: bool = False) -> None:
        super().__init__(items)
        self.go_type = go_type
        self.is_nil = is_nil


class Map(dict[Any, Any]):
    """A map whose type is not map[string]interface {}, or a nil map."""

    __slots__ = ("go_type", "is_nil")

    def __init__(
        self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), go_type: str = "map[string]string",
        is_nil: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(items)
        self.go_type = go_type
        self.is_nil = is_nil


class Struct:
    """A Go struct: ordered fields, addressed by name; an unknown field is an error, not "no value"."""

    __slots__ = ("fields", "go_type")

    def __init__(self, fields: Mapping[str, Any], go_type: str = "") -> None:
        self.fields = dict(fields)
        self.go_type = go_type or struct_type(self.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.go_type == other.go_type and self.fields == other.fields

    def __hash__(self) -> int:
        return hash((self.go_type, tuple(self.fields)))

    def __repr__(self) -> str:
        return f"Struct({self.fields!r})"


ANY_SLICE: Final = "[]interface {}"
ANY_MAP: Final = "map[string]interface {}"
NIL_MAP: Final = Map((), ANY_MAP, is_nil=True)
INT_KINDS: Final = frozenset({"int", "int8", "int16", "int32", "int64"})
UINT_KINDS: Final = frozenset({"uint", "uint8", "uint16", "uint32", "uint64", "uintptr"})

_PLAIN_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "float64",
    complex: "complex128",
    list: ANY_SLICE,
    tuple: ANY_SLICE,
    dict: ANY_MAP,
    bytes: "[]uint8",
}
_PLAIN_KINDS: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "float64",
    complex: "complex128",
    list: "slice",
    tuple: "slice",
    Slice: "slice",
    bytes: "slice",
    dict: "map",
    Map: "map",
    Struct: "struct",
    Missing: "invalid",
    type(None): "invalid",
}


def nil_slice(go_type: str = ANY_SLICE) -> Slice:
    return Slice((), go_type, is_nil=True)


def go_type(value: Any) -> str:
    """The name of the value's Go type, as `%T` prints it; nil is `interface {}` (as a nil interface value is)."""
    name = _PLAIN_TYPES.get(value.__class__)
    if name is not None:
        return name
    if value is None:
        return "interface {}"
    declared = getattr(value, "go_type", None)
    if declared is not None:
        return str(declared)
    if callable(value):
        return "func(...interface {}) interface {}"
    for base, name in _PLAIN_TYPES.items():
        if isinstance(value, base):
            return name
    return str(value.__class__.__name__)


def pointed_type(value: Any) -> str:
    """The type of the value, or of what it points to."""
    name = go_type(value)
    return name[1:] if name.startswith("*") else name


def kind(value: Any) -> str:
    """The reflect kind of the value."""
    name = _PLAIN_KINDS.get(value.__class__)
    if name is not None:
        return name
    declared = getattr(value, "go_kind", None)
    if declared is not None:
        return str(declared)
    if isinstance(value, (int, float)):
        return go_type(value)
    if callable(value):
        return "func"
    for base, name in _PLAIN_KINDS.items():
        if isinstance(value, base):
            return name
    return "struct"


def struct_type(fields: Mapping[str, Any]) -> str:
    if not fields:
        return "struct {}"
    return "struct { " + "; ".join(f"{name} {go_type(value)}" for name, value in fields.items()) + " }"


def is_interface_container(container: Any) -> bool:
    """Whether elements of the container have the static type interface {}."""
    cls = container.__class__
    if cls is dict or cls is list or cls is tuple:
        return True
    if cls is Slice or cls is Map:
        return str(container.go_type).endswith("]interface {}")
    return isinstance(container, (dict, list))


def int64s(value: Any) -> Any:
    """A copy of decoded JSON or YAML in which integers are int64, as they are in Kubernetes objects."""
    cls = value.__class__
    if cls is int:
        return Int64(value)
    if cls is dict:
        return {key: int64s(item) for key, item in value.items()}
    if cls is list:
        return [int64s(item) for item in value]
    return value
