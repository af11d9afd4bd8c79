"""Go's time layouts: the reference time Mon Jan 2 15:04:05 MST 2006 as a format.

A layout is split once into literal prefixes and elements; formatting and parsing then go element by element.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]


class Element(NamedTuple):
    kind: str
    """One of the names in `_TABLE`, "fraction0", "fraction9", or "" at the end."""
    source: str
    digits: int = 0


_TABLE: dict[str, list[tuple[str, str]]] = {
    "J": [("January", "long-month"), ("Jan", "month")],
    "M": [("Monday", "long-weekday"), ("Mon", "weekday"), ("MST", "zone")],
    "0": [
        ("01", "zero-month"), ("02", "zero-day"), ("03", "zero-hour12"), ("04", "zero-minute"),
        ("05", "zero-second"), ("06", "year"), ("002", "zero-yearday"),
    ],
    "1": [("15", "hour"), ("1", "num-month")],
    "2": [("2006", "long-year"), ("2", "day")],
    "_": [("_2", "under-day"), ("__2", "under-yearday")],
    "3": [("3", "hour12")],
    "4": [("4", "minute")],
    "5": [("5", "second")],
    "P": [("PM", "PM")],
    "p": [("pm", "pm")],
    "-": [
        ("-070000", "offset-seconds"), ("-07:00:00", "offset-colon-seconds"), ("-0700", "offset"),
        ("-07:00", "offset-colon"), ("-07", "offset-short"),
    ],
    "Z": [
        ("Z070000", "Zoffset-seconds"), ("Z07:00:00", "Zoffset-colon-seconds"), ("Z0700", "Zoffset"),
        ("Z07:00", "Zoffset-colon"), ("Z07", "Zoffset-short"),
    ],
}  # fmt: skip


def _element_at(layout: str, at: int) -> tuple[int, Element] | None:
    """The element that starts here, and how many characters before it are literal (an underscore before 2006)."""
    if layout.startswith("_2006", at):
        return 1, Element("long-year", "2006")
    for source, kind in _TABLE.get(layout[at], ()):
        if layout.startswith(source, at):
            after = layout[at + len(source) : at + len(source) + 1]
            if kind in ("month", "weekday") and "a" <= after <= "z":
                continue
            return 0, Element(kind, source)
    if layout[at] in ".," and layout[at + 1 : at + 2] in ("0", "9"):
        digit = layout[at + 1]
        end = at + 1
        while end < len(layout) and layout[end] == digit:
            end += 1
        if not "0" <= layout[end : end + 1] <= "9":
            return 0, Element("fraction" + digit, layout[at:end], end - at - 1)
    return None


@lru_cache(maxsize=512)
def split(layout: str) -> tuple[tuple[str, Element], ...]:
    """Pairs of literal text and the element after it; the last element is empty."""
    pairs, start, at = [], 0, 0
    while at < len(layout):
        found = _element_at(layout, at)
        if found is None:
            at += 1
            continue
        literal, element = found
        pairs.append((layout[start : at + literal], element))
        start = at = at + literal + len(element.source)
    pairs.append((layout[start:], Element("", "")))
    return tuple(pairs)
