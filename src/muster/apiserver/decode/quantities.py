"""Resource quantities (`100m`, `1.5Gi`, `2e3`): parsing and the one spelling the server answers with.

A quantity keeps the client's spelling if it is already canonical enough (no trailing thousands, no leading zero) and is rewritten
otherwise: `1000m` → `1`, `0.5` → `500m`, `0.5Gi` → `512Mi`. Amounts below a nano are rounded up, away from zero.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from functools import lru_cache
from typing import Final

from .errors import DecodeError

FORMAT_WRONG: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"

_SHAPE = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_EXACT = Context(prec=400)
_NANO = Decimal("1e-9")
_MAX: Final = (1 << 63) - 1


def _interpret(suffix: str) -> tuple[int, int, str]:
    """(base, exponent, format) of a suffix."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "decimal"
    if suffix in _BINARY:
        return 2, _BINARY[suffix], "binary"
    found = _EXPONENT.fullmatch(suffix)
    if found is None or abs(int(found[1])) > 100:
        raise DecodeError(SUFFIX_WRONG)
    return 10, int(found[1]), "exponent"


def _parts(text: str) -> tuple[str, str, str, str]:
    """(sign, digits before the point without leading zeros, digits after it, suffix)."""
    found = _SHAPE.fullmatch(text)
    if not text or found is None:
        raise DecodeError(FORMAT_WRONG)
    sign, _, number, fraction, suffix = found.groups(default="")
    return sign, number or "0", fraction, suffix


def _amount(text: str) -> tuple[Decimal, str]:
    sign, number, fraction, suffix = _parts(text)
    base, exponent, kind = _interpret(suffix)
    value = Decimal(f"{number}.{fraction}" if fraction else number)
    value = _EXACT.scaleb(value, exponent) if base == 10 else _EXACT.multiply(value, Decimal(1 << exponent))
    if value:
        value = value.quantize(_NANO, rounding="ROUND_UP", context=_EXACT)
    if kind == "binary":
        value = min(value, Decimal(_MAX))
        if 0 < value < 1:
            kind = "decimal"
    return (-value if sign == "-" else value), kind


def parse(text: str) -> Decimal:
    """The amount; DecodeError when the text is no quantity."""
    return _amount(text.strip())[0]


def _keeps_spelling(text: str) -> bool:
    _, number, fraction, suffix = _parts(text)
    base, exponent, _ = _interpret(suffix)
    if base == 2:
        return not fraction and len(number) + exponent * 3 // 10 + 1 <= 15 and int(number) & 7 != 0
    scale = exponent - len(fraction)
    shifted = number + fraction
    return len(shifted) <= 18 and scale >= -9 and scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The spelling the server answers with; DecodeError when the text is no quantity."""
    text = text.strip()
    if text == "0" or _keeps_spelling(text):
        return text
    value, kind = _amount(text)
    if not value:
        return "0"
    if kind == "binary" and (abs(value) < 1024 or value != value.to_integral_value(context=_EXACT)):
        kind = "decimal"
    if kind == "binary":
        whole, exponent = int(value), 0
        while whole % 1024 == 0 and exponent < 60:
            whole //= 1024
            exponent += 10
        return f"{whole}{_BINARY_SUFFIX[exponent]}"
    whole, exponent = int(_EXACT.scaleb(value, 9)), -9
    while whole % 1000 == 0 and (kind == "exponent" or exponent < 18):
        whole //= 1000
        exponent += 3
    if kind == "exponent":
        return f"{whole}e{exponent}" if exponent else str(whole)
    return f"{whole}{_DECIMAL_SUFFIX[exponent]}"
