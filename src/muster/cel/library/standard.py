"""The language's own operators and functions: arithmetic, comparison, conversion, strings, dates.

Operators are declared once per combination of types for the checker, and share one implementation that checks the values; the
compiler replaces it by a faster one if the types are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.cel import types
from muster.cel.errors import EvaluationError
from muster.cel.interpreter import operators as op
from muster.cel.library import costs
from muster.cel.library.regex import search
from muster.cel.library.registry import Cost, Library, Overload, method, overload
from muster.cel.numbers import (
    checked_int,
    display,
    double_to_int,
    double_to_uint,
    string_to_double,
    string_to_int,
    string_to_uint,
)
from muster.cel.syntax.macros import STANDARD_MACROS, TWO_VARIABLE_MACROS
from muster.cel.times import (
    MAX_SECONDS,
    MIN_SECONDS,
    format_duration,
    format_timestamp,
    moment,
    parse_duration,
    parse_timestamp,
    zone_of,
)
from muster.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_type,
    map_type,
    type_type,
)
from muster.cel.values import MISSING, Duration, Timestamp, Uint, equals, key_of, lookup, map_items
from muster.machinery.golang.durations import HOUR, MINUTE, SECOND
from muster.machinery.golang.numbers import format_shortest

A, B = types.param("A"), types.param("B")
_LIST, _MAP = list_type(A), map_type(A, B)
Declared = list[tuple[str, Overload]]


def _operators() -> Declared:
    declared: Declared = [
        ("_?_:_", overload("conditional", (BOOL, A, A), A, _never)),
        ("_&&_", overload("logical_and", (BOOL, BOOL), BOOL, _never)),
        ("_||_", overload("logical_or", (BOOL, BOOL), BOOL, _never)),
        ("!_", overload("logical_not", (BOOL,), BOOL, op.logical_not)),
        ("@not_strictly_false", overload("not_strictly_false", (BOOL,), BOOL, _never)),
        ("_==_", overload("equals", (A, A), BOOL, equals, cost=costs.smaller_argument)),
        ("_!=_", overload("not_equals", (A, A), BOOL, op.not_equals, cost=costs.smaller_argument)),
        ("@in", overload("in_list", (A, _LIST), BOOL, op.contained, cost=costs.second_argument)),
        ("@in", overload("in_map", (A, _MAP), BOOL, op.contained)),
        ("_[_]", overload("index_list", (_LIST, INT), A, op.at_index)),
        ("_[_]", overload("index_map", (_MAP, A), B, op.at_index)),
    ]
    for name, call, rows in _ARITHMETIC:
        for left, right, result in rows:
            cost: Cost | None = costs.both_arguments if name == "_+_" and left in (STRING, BYTES) else None
            suffix = f"{left.kind}_{right.kind}"
            declared.append((name, overload(f"{name}{suffix}", (left, right), result, call, cost=cost)))
    for name, call in _ORDERINGS:
        for left, right in _ORDERED:
            cost = costs.smaller_argument if left in (STRING, BYTES) else None
            declared.append((name, overload(f"{name}{left.kind}_{right.kind}", (left, right), BOOL, call, cost=cost)))
    for number in (DOUBLE, INT):
        declared.append(("-_", overload(f"negate_{number.kind}", (number,), number, op.negate)))
    return declared


def _never(*arguments: Any) -> Any:
    raise AssertionError("compiled specially, never called")


_NUMBERS = [(INT, INT, INT), (UINT, UINT, UINT), (DOUBLE, DOUBLE, DOUBLE)]
_ARITHMETIC: list[tuple[str, Callable[[Any, Any], Any], list[tuple[Type, Type, Type]]]] = [
    (
        "_+_",
        op.add,
        [
            (BYTES, BYTES, BYTES),
            (DOUBLE, DOUBLE, DOUBLE),
            (DURATION, DURATION, DURATION),
            (DURATION, TIMESTAMP, TIMESTAMP),
            (TIMESTAMP, DURATION, TIMESTAMP),
            (INT, INT, INT),
            (_LIST, _LIST, _LIST),
            (STRING, STRING, STRING),
            (UINT, UINT, UINT),
        ],
    ),
    (
        "_-_",
        op.subtract,
        [
            (DOUBLE, DOUBLE, DOUBLE),
            (DURATION, DURATION, DURATION),
            (INT, INT, INT),
            (TIMESTAMP, DURATION, TIMESTAMP),
            (TIMESTAMP, TIMESTAMP, DURATION),
            (UINT, UINT, UINT),
        ],
    ),
    ("_*_", op.multiply, _NUMBERS),
    ("_/_", op.divide, _NUMBERS),
    ("_%_", op.modulo, _NUMBERS[:2]),
]
_ORDERINGS = [("_<_", op.less), ("_<=_", op.less_equals), ("_>_", op.greater), ("_>=_", op.greater_equals)]
_ORDERED = [
    (BOOL, BOOL),
    *((left, right) for left in (INT, UINT, DOUBLE) for right in (INT, UINT, DOUBLE)),
    (STRING, STRING),
    (BYTES, BYTES),
    (TIMESTAMP, TIMESTAMP),
    (DURATION, DURATION),
]


def _conversion_error(source: Type, target: Type) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source.name}' to '{target.name}'")


def _from_text(parse: Callable[[str], Any], target: Type) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except EvaluationError:
            raise _conversion_error(STRING, target) from None

    return convert


def _text_to_bool(text: str) -> bool:
    value = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True,
             "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False}.get(text)  # fmt: skip
    if value is None:
        raise _conversion_error(STRING, BOOL)
    return value


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _int_to_uint(value: int) -> Uint:
    if value < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _int_to_timestamp(value: int) -> Timestamp:
    if not MIN_SECONDS <= value <= MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(value * SECOND)


def _int_to_duration(value: int) -> Duration:
    """Declared by cel-go, and refused at run time."""
    raise _conversion_error(INT, DURATION)


def _identity(value: Any) -> Any:
    return value


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_CONVERSIONS: list[tuple[str, Type, list[tuple[Type, Callable[[Any], Any], Cost | None]]]] = [
    ("bool", BOOL, [(BOOL, _identity, None), (STRING, _text_to_bool, None)]),
    ("bytes", BYTES, [(BYTES, _identity, None), (STRING, _encode, costs.first_argument)]),
    (
        "double",
        DOUBLE,
        [
            (DOUBLE, _identity, None),
            (INT, float, None),
            (STRING, _from_text(string_to_double, DOUBLE), None),
            (UINT, float, None),
        ],
    ),
    (
        "duration",
        DURATION,
        [(DURATION, _identity, None), (INT, _int_to_duration, None), (STRING, _from_text(parse_duration, DURATION), None)],
    ),
    (
        "int",
        INT,
        [
            (INT, _identity, None),
            (DOUBLE, double_to_int, None),
            (DURATION, lambda value: value.ns, None),
            (STRING, _from_text(string_to_int, INT), None),
            (TIMESTAMP, lambda value: value.ns // SECOND, None),
            (UINT, lambda value: checked_int(int(value)), None),
        ],
    ),
    (
        "string",
        STRING,
        [
            (STRING, _identity, None),
            (BOOL, lambda value: "true" if value else "false", None),
            (BYTES, _bytes_to_text, costs.first_argument),
            (DOUBLE, format_shortest, None),
            (DURATION, format_duration, None),
            (INT, str, None),
            (TIMESTAMP, format_timestamp, None),
            (UINT, lambda value: str(int(value)), None),
        ],
    ),
    (
        "timestamp",
        TIMESTAMP,
        [
            (TIMESTAMP, _identity, None),
            (INT, _int_to_timestamp, None),
            (STRING, _from_text(parse_timestamp, TIMESTAMP), None),
        ],
    ),
    (
        "uint",
        UINT,
        [
            (UINT, _identity, None),
            (DOUBLE, double_to_uint, None),
            (INT, _int_to_uint, None),
            (STRING, _from_text(string_to_uint, UINT), None),
        ],
    ),
]
CONVERSIONS = frozenset({"type", "dyn", *(name for name, _, _ in _CONVERSIONS)})
"""Functions that are evaluated at compile time when their argument is constant."""


def _conversions() -> Declared:
    declared: Declared = [
        ("type", overload("type", (A,), type_type(A), op.type_value)),
        ("dyn", overload("to_dyn", (A,), DYN, _identity)),
    ]
    for name, target, rows in _CONVERSIONS:
        for source, convert, cost in rows:
            id_ = f"{source.kind}_to_{target.kind}"
            declared.append((name, overload(id_, (source,), target, convert, cost=cost)))
    return declared


def _strings() -> Declared:
    two = (STRING, STRING)
    declared: Declared = [
        ("contains", method("contains_string", two, BOOL, lambda text, part: part in text, costs.product)),
        ("endsWith", method("ends_with_string", two, BOOL, str.endswith, costs.first_argument)),
        ("startsWith", method("starts_with_string", two, BOOL, str.startswith, costs.first_argument)),
        ("matches", overload("matches", two, BOOL, search, cost=costs.regex)),
        ("matches", method("matches_string", two, BOOL, search, costs.regex)),
    ]
    for sized in (BYTES, _LIST, _MAP, STRING):
        declared.append(("size", overload(f"size_{sized.kind}", (sized,), INT, op.size)))
        declared.append(("size", method(f"{sized.kind}_size", (sized,), INT, op.size)))
    return declared


_DATE_FIELDS: list[tuple[str, Callable[[Any], int]]] = [
    ("getFullYear", lambda when: when.year),
    ("getMonth", lambda when: when.month - 1),
    ("getDayOfYear", lambda when: when.timetuple().tm_yday - 1),
    ("getDate", lambda when: when.day),
    ("getDayOfMonth", lambda when: when.day - 1),
    ("getDayOfWeek", lambda when: when.isoweekday() % 7),
    ("getHours", lambda when: when.hour),
    ("getMinutes", lambda when: when.minute),
    ("getSeconds", lambda when: when.second),
]
_SPANS = [("getHours", HOUR), ("getMinutes", MINUTE), ("getSeconds", SECOND), ("getMilliseconds", 10**6)]


def _date_reader(read: Callable[[Any], int]) -> Callable[..., int]:
    def date_field(value: Timestamp, zone: str = "UTC") -> int:
        return read(moment(value, zone_of(zone)))

    return date_field


def _span_reader(unit: int) -> Callable[[Duration], int]:
    return lambda value: abs(value.ns) // unit * (-1 if value.ns < 0 else 1)


def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    zone_of(zone)
    return value.ns % SECOND // 10**6


def _dates() -> Declared:
    declared: Declared = []
    for name, read in _DATE_FIELDS:
        call = _date_reader(read)
        declared.append((name, method(f"timestamp_{name}", (TIMESTAMP,), INT, call)))
        declared.append((name, method(f"timestamp_{name}_tz", (TIMESTAMP, STRING), INT, call)))
    declared.append(("getMilliseconds", method("timestamp_ms", (TIMESTAMP,), INT, _milliseconds)))
    declared.append(("getMilliseconds", method("timestamp_ms_tz", (TIMESTAMP, STRING), INT, _milliseconds)))
    for name, unit in _SPANS:
        declared.append((name, method(f"duration_{name}", (DURATION,), INT, _span_reader(unit))))
    return declared


def insert(target: dict[Any, Any], key: Any, value: Any) -> None:
    """Adds to a map under construction; a duplicate key is an error."""
    if lookup(target, key) is not MISSING:
        raise EvaluationError(f"insert failed: key {display(key)} already exists")
    target[key_of(key)] = value


def insert_all(target: dict[Any, Any], entries: Any) -> None:
    for key, value in map_items(entries):
        insert(target, key, value)


STANDARD = Library("standard", overloads=(*_operators(), *_conversions(), *_strings(), *_dates()), macros=STANDARD_MACROS)

TWO_VARIABLE_COMPREHENSIONS = Library(
    "comprehensions",
    overloads=(
        ("cel.@mapInsert", overload("map_insert", (_MAP, A, B), _MAP, _never)),
        ("cel.@mapInsert", overload("map_insert_map", (_MAP, _MAP), _MAP, _never)),
    ),
    macros=TWO_VARIABLE_MACROS,
)
