"""`"…".format([…])`: the clauses %s %d %f %e %b %x %X %o.

One parser serves two readers: the run-time formatter, and the compile-time check of literal format strings against the
types of their arguments. Floating-point clauses follow the reference's en-US printer: grouped digits for %f, a
multiplication sign and superscript exponent for %e.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from muster.cel.errors import MOST_CHARACTERS, EvaluationError, afford
from muster.cel.times import format_duration, format_timestamp
from muster.cel.types import Type
from muster.cel.values import Duration, Timestamp, Uint, elements, is_list, is_map, map_items, type_of
from muster.machinery.golang.numbers import format_shortest
from muster.machinery.golang.quoting import quote

_SUPERSCRIPT = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
_MAX_PRECISION = 1000
_PER_VALUE = 20
Clause = Callable[[Any, int], str]


class FormatError(EvaluationError):
    """The format string or an argument does not fit; `argument` is its position when one is to blame."""

    def __init__(self, message: str, argument: int | None = None) -> None:
        super().__init__(message)
        self.argument = argument


def format_string(template: str, arguments: Any) -> str:
    values = elements(arguments)

    def argument(index: int) -> Any:
        if index >= len(values):
            raise FormatError(f"index {index} out of range")
        return values[index]

    return interpolate(template, argument, lambda clause, value, precision: _CLAUSES[clause](value, precision))


def interpolate(template: str, argument: Callable[[int], Any], render: Callable[[str, Any, int], str]) -> str:
    """Walks the template and asks `render` for the text of each clause."""
    parts: list[str] = []
    position, index, end, written = 0, 0, len(template), 0
    while position < end:
        percent = template.find("%", position)
        if percent < 0:
            parts.append(template[position:])
            break
        parts.append(template[position:percent])
        if template.startswith("%%", percent):
            parts.append("%")
            position = percent + 2
            continue
        value = argument(index)
        if percent + 1 >= end:
            raise FormatError("unexpected end of string")
        position, clause, precision = _clause(template, percent + 1)
        try:
            parts.append(render(clause, value, precision))
            written += len(parts[-1])
            afford(written, MOST_CHARACTERS)
        except FormatError as error:
            raise FormatError(f"error during formatting: {error}", index) from None
        index += 1
    return "".join(parts)


def _clause(template: str, position: int) -> tuple[int, str, int]:
    precision = 6
    if template[position] == ".":
        start = position = position + 1
        while position < len(template) and "0" <= template[position] <= "9":
            position += 1
        if position >= len(template):
            raise FormatError(
                "could not parse formatting clause: error while parsing precision: could not find end of precision specifier"
            )
        digits = template[start:position]
        if not digits or len(digits) > 9 or int(digits) > _MAX_PRECISION:
            reason = "invalid syntax" if not digits else "value out of range"
            raise FormatError(
                "could not parse formatting clause: error while parsing precision: error while converting precision to"
                f' integer: strconv.Atoi: parsing "{digits}": {reason}'
            )
        precision = int(digits)
    clause = template[position]
    if clause not in _CLAUSES:
        raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{clause}"')
    return position + 1, clause, precision


class _Writer:
    """Writes one value for %s. What it writes is counted, because parts of a value may be shared many times over."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        self.written = 0

    def count(self, text: str) -> str:
        self.written += len(text) + _PER_VALUE
        afford(self.written, MOST_CHARACTERS)
        return text

    def text(self, value: Any) -> str:
        """A value as it stands in the text."""
        write = _SCALARS.get(value.__class__)
        if write is not None:
            return self.count(write(value))
        self.count("")
        if is_list(value):
            return "[" + ", ".join([self.nested(item) for item in elements(value)]) + "]"
        if is_map(value):
            entries = sorted([(self.key(key), self.nested(item)) for key, item in map_items(value)])
            return "{" + ", ".join([f"{key}:{item}" for key, item in entries]) + "}"
        raise FormatError(STRING_CLAUSE.format(type_of(value).name))

    def key(self, key: Any) -> str:
        if key.__class__ is float:
            raise FormatError("no formatting function for map key of type double")
        return self.count(quote(key)) if key.__class__ is str else self.text(key)

    def nested(self, value: Any) -> str:
        """A value within a list or map: as a CEL literal."""
        write = _LITERALS.get(value.__class__)
        if write is not None:
            return self.count(write(value))
        if value.__class__ in _SCALARS or is_list(value) or is_map(value):
            return self.text(value)
        raise FormatError(f"no formatting function for {type_of(value).name}")


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise FormatError("invalid UTF-8 in bytes, cannot convert to string") from None


def _double_literal(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else quote(format_shortest(value))


_SCALARS: dict[type, Callable[[Any], str]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: lambda value: str(int(value)),
    float: format_shortest,
    bytes: _bytes_text,
    Timestamp: format_timestamp,
    Duration: format_duration,
    Type: lambda value: str(value.name),
    type(None): lambda value: "null",
}
_LITERALS: dict[type, Callable[[Any], str]] = {
    str: quote,
    bytes: lambda value: "b" + quote(_bytes_text(value)),
    float: _double_literal,
    Timestamp: lambda value: f"timestamp({quote(format_timestamp(value))})",
    Duration: lambda value: f"duration({quote(format_duration(value))})",
}


def _text(value: Any, precision: int) -> str:
    return _Writer().text(value)


STRING_CLAUSE = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    " timestamps, was given {}"
)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_COMPLAINTS = {
    "s": STRING_CLAUSE,
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
_ACCEPTED = {
    "s": frozenset(["list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"]),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}


def check_argument(clause: str, type_: Type) -> None:
    """Raises FormatError when an argument of the type can never be formatted by the clause."""
    if type_.kind != "dyn" and type_.kind not in _ACCEPTED[clause]:
        raise FormatError(_COMPLAINTS[clause].format(type_.name))


def _wrong(clause: str, value: Any) -> FormatError:
    return FormatError(_COMPLAINTS[clause].format(type_of(value).name))


def _decimal(value: Any, precision: int) -> str:
    if value.__class__ not in (int, Uint):
        raise _wrong("d", value)
    return str(int(value))


def _double(clause: str, value: Any) -> float:
    if value.__class__ is float:
        return float(value)
    if value.__class__ is str and value in _SPECIAL:
        return _SPECIAL[value]
    raise _wrong(clause, value)


def _not_finite(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    return ("-∞" if value < 0 else "∞") if math.isinf(value) else None


def _fixed(value: Any, precision: int) -> str:
    number = _double("f", value)
    return _not_finite(number) or f"{number:,.{precision}f}"


def _scientific(value: Any, precision: int) -> str:
    number = _double("e", value)
    special = _not_finite(number)
    if special is not None:
        return special
    mantissa, exponent = f"{number:.6e}".split("e")
    power = f"{'-' if exponent.startswith('-') else ''}{exponent[1:]}"
    return f"{mantissa}×10{power.translate(_SUPERSCRIPT)}"


def _binary(value: Any, precision: int) -> str:
    if value.__class__ not in (int, Uint, bool):
        raise _wrong("b", value)
    return f"{int(value):b}"


def _hex(case: str) -> Clause:
    def clause(value: Any, precision: int) -> str:
        kind = value.__class__
        if kind is str or kind is bytes:
            text = (value.encode("utf-8", "surrogatepass") if kind is str else value).hex()
            return str(text.upper() if case == "X" else text)
        if kind is int or kind is Uint:
            return f"{int(value):{case}}"
        raise _wrong("x", value)

    return clause


def _octal(value: Any, precision: int) -> str:
    if value.__class__ not in (int, Uint):
        raise _wrong("o", value)
    return f"{int(value):o}"


_CLAUSES: dict[str, Clause] = {
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex("x"),
    "X": _hex("X"),
    "o": _octal,
}
