"""Numbers with a suffix: `500m`, `1.5Gi`, `12e6`. Follows apimachinery's `resource.Quantity`.

A quantity is an integer count of nano-units plus the format it was written in (binary SI, decimal SI or decimal exponent), which
decides the suffix it is printed with. Values finer than one nano-unit are rounded up and away from zero; binary ones are capped at
2^63-1 units, as the API caps them. A text without digits (`Ki`) is zero, unless its suffix takes it beyond 64 bits (`Ei`). Unlike
Go, a text of more than a thousand characters is no quantity, and exponents end at ±1000.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Final, NamedTuple

from muster.machinery.golang.errors import GoError
from muster.machinery.memo import memoized

BINARY_SI: Final = "BinarySI"
DECIMAL_SI: Final = "DecimalSI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

NANO: Final = 10**9
"""Nano-units in a unit."""
_CAP: Final = (2**63 - 1) * NANO
_GRAMMAR: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT: Final = re.compile(r"[eE][-+]?[0-9]{1,19}")
_MAX_EXPONENT: Final = 1000
_MAX_LENGTH: Final = 1000
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES: Final = {power: name for name, power in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = {power: name for name, power in _BINARY_SUFFIXES.items()}

WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
WRONG_NUMBER: Final = "unable to parse numeric part of quantity"


class QuantityError(GoError):
    """The text is not a quantity."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    nanos: int
    format: str = field(default=DECIMAL_SI)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    @property
    def value(self) -> int:
        """Whole units, rounded up."""
        return -(-self.nanos // NANO)

    @property
    def milli_value(self) -> int:
        return -(-self.nanos * 1000 // NANO)

    def __str__(self) -> str:
        return _canonical(self.nanos, self.format)


def _canonical(nanos: int, kind: str) -> str:
    if nanos == 0:
        return "0"
    sign, size = ("-", -nanos) if nanos < 0 else ("", nanos)
    if kind == BINARY_SI and size >= 1024 * NANO and size % NANO == 0:
        units, power = size // NANO, 0
        while power < 60 and units % 1024 == 0:
            units, power = units // 1024, power + 10
        return f"{sign}{units}{_BINARY_NAMES.get(power, '')}"
    digits, power = size, -9
    while digits % 1000 == 0 and (power < 18 or kind == DECIMAL_EXPONENT):
        digits, power = digits // 1000, power + 3
    if kind == DECIMAL_EXPONENT:
        return f"{sign}{digits}" if power == 0 else f"{sign}{digits}e{power}"
    return f"{sign}{digits}{_DECIMAL_NAMES[power]}"


class Notation(NamedTuple):
    """The parts of a quantity's text: digits before and after the point, and the power of two (binary SI) or ten they count."""

    negative: bool
    whole: str
    fraction: str
    format: str
    power: int

    @property
    def scale(self) -> int | None:
        """The power of ten of a number that Go keeps in 64 bits; None for one that it keeps as a big decimal."""
        if self.format == BINARY_SI:
            return 0 if not self.fraction and len(self.whole) + self.power * 3 // 10 + 1 <= 15 else None
        scale = self.power - len(self.fraction)
        return scale if len(self.whole) + len(self.fraction) <= 18 and scale >= -9 else None

    @property
    def quantity(self) -> Quantity:
        size, power = int(self.whole + self.fraction), 9 - len(self.fraction)
        if self.format == BINARY_SI:
            size <<= self.power
        else:
            power += self.power
        nanos = size * 10**power if power >= 0 else -(-size // 10**-power)
        if self.format == BINARY_SI:
            nanos = min(nanos, _CAP)
        return Quantity(-nanos if self.negative else nanos, self.format)

    @property
    def approximate(self) -> float:
        """`AsApproximateFloat64`; raises OverflowError for what no double can hold."""
        size, scale = int(self.whole + self.fraction), -len(self.fraction)
        if self.format == BINARY_SI:
            size <<= self.power
        else:
            scale += self.power
        base = float(-size if self.negative else size)
        return base * 10.0**scale if scale else base


def parse_notation(text: str) -> Notation:
    """Raises QuantityError with the API's message."""
    found = _GRAMMAR.fullmatch(text) if 0 < len(text) <= _MAX_LENGTH else None
    if found is None:
        raise QuantityError(WRONG_FORMAT)
    sign, whole, fraction, suffix = found.groups()
    if suffix in _DECIMAL_SUFFIXES:
        kind, power = DECIMAL_SI, _DECIMAL_SUFFIXES[suffix]
    elif suffix in _BINARY_SUFFIXES:
        kind, power = BINARY_SI, _BINARY_SUFFIXES[suffix]
    elif _EXPONENT.fullmatch(suffix):
        kind, power = DECIMAL_EXPONENT, max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(suffix[1:])))
    else:
        raise QuantityError(WRONG_SUFFIX)
    notation = Notation(sign == "-", whole or "0", fraction or "", kind, power)
    if not (whole or fraction or "0" in text[: found.start(4)]) and notation.scale is None:
        raise QuantityError(WRONG_NUMBER)
    return notation


@memoized(4096)
def parse_quantity(text: str) -> Quantity:
    """`resource.ParseQuantity`; raises QuantityError."""
    return parse_notation(text).quantity


def canonical(text: str) -> str:
    """The spelling the server answers with; raises QuantityError.

    The client's spelling is kept if it is canonical enough (no trailing thousands, no leading zero, a scale in thousands) and
    rewritten otherwise: `1000m` → `1`, `0.5` → `500m`, `0.5Gi` → `512Mi`; `1.125` and `+5` stay as they are.
    """
    text = text.strip()
    if text == "0":
        return text
    notation = parse_notation(text)
    return text if _keeps_spelling(notation) else str(notation.quantity)


def _keeps_spelling(notation: Notation) -> bool:
    scale = notation.scale
    if scale is None:
        return False
    if notation.format == BINARY_SI:
        return int(notation.whole) & 7 != 0
    digits = notation.whole + notation.fraction
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
