"""resource.Quantity: numbers with a suffix (`500m`, `1.5Gi`, `12e6`), exact, ordered, and printed in the API's canonical form.

A quantity is an integer count of nano-units plus the format it was written in (binary SI, decimal SI or decimal exponent), which
decides the suffix it is printed with. Values finer than one nano-unit are rounded up and away from zero; binary ones are capped at
2^63-1 units, as the API caps them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Final

from muster.kube.remembering import remembered

BINARY_SI: Final = "BinarySI"
DECIMAL_SI: Final = "DecimalSI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

_NANO: Final = 10**9
_CAP: Final = (2**63 - 1) * _NANO
_GRAMMAR: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[-+]?\d*)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE][-+]?\d+", re.ASCII)
_MAX_EXPONENT: Final = 1000
_MAX_LENGTH: Final = 1000
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES: Final = {power: name for name, power in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = {power: name for name, power in _BINARY_SUFFIXES.items()}

WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


class QuantityError(ValueError):
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
        return -(-self.nanos // _NANO)

    @property
    def milli_value(self) -> int:
        return -(-self.nanos * 1000 // _NANO)

    def __str__(self) -> str:
        return _canonical(self.nanos, self.format)


def _canonical(nanos: int, kind: str) -> str:
    if nanos == 0:
        return "0"
    sign, size = ("-", -nanos) if nanos < 0 else ("", nanos)
    if kind == BINARY_SI and size >= 1024 * _NANO and size % _NANO == 0:
        units, power = size // _NANO, 0
        while power < 60 and units % 1024 == 0:
            units, power = units // 1024, power + 10
        return f"{sign}{units}{_BINARY_NAMES.get(power, '')}"
    digits, power = size, -9
    while digits % 1000 == 0 and (power < 18 or kind == DECIMAL_EXPONENT):
        digits, power = digits // 1000, power + 3
    if kind == DECIMAL_EXPONENT:
        return f"{sign}{digits}" if power == 0 else f"{sign}{digits}e{power}"
    return f"{sign}{digits}{_DECIMAL_NAMES[power]}"


def _round_away(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


@remembered(4096)
def parse_quantity(text: str) -> Quantity:
    """Raises QuantityError with the API's message."""
    if not text or len(text) > _MAX_LENGTH:
        raise QuantityError(WRONG_FORMAT)
    found = _GRAMMAR.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise QuantityError(WRONG_FORMAT)
    sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
    digits = int((whole + fraction) or "0")
    kind, shift, exponent = DECIMAL_SI, 0, 0
    if suffix in _DECIMAL_SUFFIXES:
        exponent = _DECIMAL_SUFFIXES[suffix]
    elif suffix in _BINARY_SUFFIXES:
        kind, shift = BINARY_SI, _BINARY_SUFFIXES[suffix]
    elif _EXPONENT.fullmatch(suffix):
        kind, exponent = DECIMAL_EXPONENT, max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(suffix[1:])))
    else:
        raise QuantityError(WRONG_SUFFIX)
    power = exponent + 9 - len(fraction)
    size = digits << shift
    nanos = size * 10**power if power >= 0 else _round_away(size, 10**-power)
    if kind == BINARY_SI:
        nanos = min(nanos, _CAP)
    return Quantity(-nanos if sign == "-" else nanos, kind)
