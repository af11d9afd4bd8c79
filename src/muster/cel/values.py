"""CEL values as Python values, and the operations every value takes part in.

| CEL       | Python                         | CEL       | Python                          |
|-----------|--------------------------------|-----------|---------------------------------|
| int       | int                            | list      | list, or a `ListView`           |
| uint      | `Uint` (an int)                | map       | dict, or a `MapView`            |
| double    | float                          | timestamp | `Timestamp` (nanoseconds)       |
| bool      | bool                           | duration  | `Duration` (nanoseconds)        |
| string    | str                            | optional  | `Optional`                      |
| bytes     | bytes                          | type      | `types.Type`                    |
| null_type | None                           | others    | classes deriving from `Opaque`  |

JSON as Python decodes it is therefore already CEL. Python takes True for 1; CEL does not: comparisons look at classes,
and dicts made by CEL store boolean keys as `BoolKey`. Views adapt JSON lazily by a schema; see `schema.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from muster.cel import types
from muster.cel.errors import MOST_ELEMENTS, EvaluationError, afford, no_such_overload
from muster.cel.types import Type

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned 64-bit integer; equal to an int of the same value, but of another type."""

    __slots__ = ()


class Opaque:
    """Base of values CEL knows only by name: compared by `__eq__`, read through functions."""

    __slots__ = ()
    cel_type: ClassVar[Type]


class _Nanoseconds:
    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return other.__class__ is self.__class__ and other.ns == self.ns

    def __hash__(self) -> int:
        return hash((self.__class__, self.ns))

    def __lt__(self, other: _Nanoseconds) -> bool:
        return self.ns < other.ns

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.ns})"


class Timestamp(_Nanoseconds):
    """Nanoseconds since the epoch."""

    __slots__ = ()


class Duration(_Nanoseconds):
    """A span of nanoseconds."""

    __slots__ = ()


class Optional:
    """`optional.of(value)`, or the one `NONE`."""

    __slots__ = ("present", "value")

    def __init__(self, present: bool, value: Any = None) -> None:
        self.present = present
        self.value = value

    def __repr__(self) -> str:
        return f"optional.of({self.value!r})" if self.present else "optional.none()"


NONE = Optional(False)


class BoolKey:
    """A boolean as a dict key that does not collide with 0 and 1."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


TRUE_KEY, FALSE_KEY = BoolKey(True), BoolKey(False)


class ListView:
    """A list whose elements are adapted when read. A marker: `views.py` has the implementations."""

    __slots__ = ()

    if TYPE_CHECKING:

        def elements(self) -> list[Any]: ...
        def __len__(self) -> int: ...
        def equals(self, other: Any) -> bool: ...
        def plus(self, other: Any) -> Any: ...


class MapView:
    """A map or object whose values are adapted when read; `find` answers MISSING for absent keys."""

    __slots__ = ()

    if TYPE_CHECKING:

        def find(self, key: Any) -> Any: ...
        def keys(self) -> list[Any]: ...
        def __len__(self) -> int: ...
        def equals(self, other: Any) -> bool: ...


class _Missing:
    __slots__ = ()


MISSING = _Missing()


def key_of(value: Any) -> Any:
    """A CEL value as a dict key; raises when the value cannot be one."""
    kind = value.__class__
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool:
        return TRUE_KEY if value else FALSE_KEY
    if kind is float:
        return value
    raise EvaluationError(f"unsupported key type: {type_of(value).name}")


def lookup(container: Any, key: Any) -> Any:
    """The value at a map key, or MISSING."""
    if container.__class__ is dict:
        kind = key.__class__
        if kind is bool:
            key = TRUE_KEY if key else FALSE_KEY
        elif kind is not str and kind is not int and kind is not Uint and kind is not float:
            return MISSING
        return container.get(key, MISSING)
    return container.find(key)


def elements(value: Any) -> list[Any]:
    """The elements of a list value."""
    if value.__class__ is list:
        return value
    if isinstance(value, ListView):
        return value.elements()
    raise no_such_overload()


def map_keys(value: Any) -> list[Any]:
    if value.__class__ is dict:
        return [key.value if key.__class__ is BoolKey else key for key in value]
    if isinstance(value, MapView):
        return value.keys()
    raise no_such_overload()


def map_items(value: Any) -> Iterator[tuple[Any, Any]]:
    if value.__class__ is dict:
        for key, item in value.items():
            yield (key.value if key.__class__ is BoolKey else key), item
        return
    for key in map_keys(value):
        found = value.find(key)
        if found is not MISSING:
            yield key, found


def is_list(value: Any) -> bool:
    return value.__class__ is list or isinstance(value, ListView)


def is_map(value: Any) -> bool:
    return value.__class__ is dict or isinstance(value, MapView)


_NUMBERS = frozenset({int, Uint, float})
_TYPES: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.LIST,
    dict: types.MAP,
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    Optional: types.OPTIONAL,
    Type: types.TYPE,
}


def type_of(value: Any) -> Type:
    known = _TYPES.get(value.__class__)
    if known is not None:
        return known
    if isinstance(value, ListView):
        return types.LIST
    if isinstance(value, MapView):
        return types.MAP
    if isinstance(value, Opaque):
        return value.cel_type
    raise EvaluationError(f"unsupported conversion to ref.Val: ({type(value).__name__}){value}")


def equals(left: Any, right: Any) -> bool:
    """CEL equality: numbers by value, aggregates by element, other types never equal to one another."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is list or kind is dict or kind is Optional:
            return _Equality().aggregates(left, right)
        if kind is Type:
            return bool(left.name == right.name)
        if not isinstance(left, ListView | MapView):
            return bool(left == right)
    if kind in _NUMBERS and other in _NUMBERS:
        return _same_number(left, right)
    if isinstance(left, ListView | MapView):
        return left.equals(right)
    if isinstance(right, ListView | MapView) and (is_list(left) or is_map(left)):
        return _equal_to_view(left, right)
    return False


class _Equality:
    """One comparison of aggregates, with a count of its steps.

    Bindings let an expression build a small value that represents a huge one by sharing its parts. Comparing two such values would
    take unbounded time at the cost of one step, so the steps are counted here.
    """

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0

    def aggregates(self, left: Any, right: Any) -> bool:
        if left.__class__ is Optional:
            return bool(left.present == right.present and (not left.present or self.equals(left.value, right.value)))
        if len(left) != len(right):
            return False
        self.steps += len(left)
        afford(self.steps, MOST_ELEMENTS)
        if left.__class__ is list:
            return all(map(self.equals, left, right))
        return all((found := right.get(key, MISSING)) is not MISSING and self.equals(value, found) for key, value in left.items())

    def equals(self, left: Any, right: Any) -> bool:
        kind = left.__class__
        if kind is right.__class__ and (kind is list or kind is dict or kind is Optional):
            return self.aggregates(left, right)
        return equals(left, right)


def _equal_to_view(left: Any, right: Any) -> bool:
    if is_list(left) != is_list(right) or len(left) != len(right):
        return False
    if is_list(left):
        return all(map(equals, left, elements(right)))
    return all((found := lookup(right, key)) is not MISSING and equals(value, found) for key, value in map_items(left))


def _same_number(left: Any, right: Any) -> bool:
    if left.__class__ is float or right.__class__ is float:
        return float(left) == float(right)
    return bool(left == right)


_ORDERED = frozenset({int, str, bytes, Timestamp, Duration, bool})


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1; raises for values without an order."""
    kind, other = left.__class__, right.__class__
    if kind is other and kind in _ORDERED:
        return -1 if left < right else (0 if left == right else 1)
    if kind in _NUMBERS and other in _NUMBERS:
        if kind is float or other is float:
            if math.isnan(left) or math.isnan(right):
                raise EvaluationError("NaN values cannot be ordered")
            left, right = float(left), float(right)
        return -1 if left < right else (0 if left == right else 1)
    raise no_such_overload()


def size_of(value: Any) -> int:
    """The size of a value in the cost model: its length, or 1 for scalars."""
    kind = value.__class__
    if kind is str or kind is bytes or kind is list or kind is dict:
        return len(value)
    if isinstance(value, ListView | MapView):
        return len(value)
    if kind is Optional and value.present:
        return size_of(value.value)
    return 1


def is_zero(value: Any) -> bool:
    """Whether `optional.ofNonZeroValue` treats the value as absent."""
    if value is None or value is False or value is NONE:
        return True
    kind = value.__class__
    if kind in _NUMBERS:
        return bool(value == 0)
    if kind is str or kind is bytes or kind is list or kind is dict or isinstance(value, ListView | MapView):
        return len(value) == 0
    if kind is Duration:
        return bool(value.ns == 0)
    return kind is Optional and not value.present


def plain(value: Any) -> Any:
    """A result as JSON-like Python: views and optionals resolved, times as text, bytes unchanged."""
    kind = value.__class__
    if kind is Optional:
        return plain(value.value) if value.present else None
    if is_list(value):
        return [plain(element) for element in elements(value)]
    if is_map(value):
        return {key: plain(item) for key, item in map_items(value)}
    if kind is Timestamp or kind is Duration:
        from muster.cel.times import format_duration, format_timestamp

        return format_timestamp(value) if kind is Timestamp else format_duration(value)
    return int(value) if kind is Uint else value
