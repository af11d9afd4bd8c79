"""The one spelling the server answers a resource quantity with.

A quantity keeps the client's spelling if that is canonical enough (no trailing thousands, no leading zero, a scale in thousands)
and is rewritten otherwise: `1000m` → `1`, `0.5` → `500m`, `0.5Gi` → `512Mi`; `1.125` and `+5` stay as they are.
"""

from __future__ import annotations

import re
from typing import Final

from muster.kube.quantity import WRONG_FORMAT, QuantityError, parse_quantity
from muster.kube.remembering import remembered

from .errors import DecodeError

FORMAT_WRONG: Final = WRONG_FORMAT
_SHAPE = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?(?:(Ki|Mi|Gi|Ti|Pi|Ei)|(n|u|m|k|M|G|T|P|E|)|[eE]([+-]?[0-9]{1,3}))", re.ASCII)
_GRAMMAR = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*", re.ASCII)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def _keeps_spelling(text: str) -> bool:
    found = _SHAPE.fullmatch(text)
    if found is None:
        return False
    number, fraction = found[1] or "0", found[2] or ""
    if found[3]:
        exponent = _BINARY[found[3]]
        return not fraction and len(number) + exponent * 3 // 10 + 1 <= 15 and int(number) & 7 != 0
    scale = (_DECIMAL[found[4]] if found[4] is not None else int(found[5])) - len(fraction)
    shifted = number + fraction
    return len(shifted) <= 18 and scale >= -9 and scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


@remembered(4096)
def canonical(text: str) -> str:
    """The spelling the server answers with; DecodeError when the text is no quantity."""
    text = text.strip()
    if text == "0" or _keeps_spelling(text):
        return text
    if not _GRAMMAR.fullmatch(text):
        raise DecodeError(FORMAT_WRONG)
    try:
        return str(parse_quantity(text))
    except QuantityError as error:
        raise DecodeError(str(error)) from error
