"""String formats a schema may demand, with the exact acceptance of the server's registry.

A format name is compared without dashes (`date-time` is `datetime`). A name outside the table is ignored, as the server ignores it.
The predicates follow the Go functions behind the names, including their oddities: `byte` refuses the empty string, `ipv4` tolerates
leading zeros and mapped IPv6, `duration` also takes "3 days".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from muster.kube.structural_schema.emails import is_email
from muster.kube.structural_schema.patterns import matcher
from muster.machinery.golang.durations import parse_duration
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.urls import is_request_uri


def _matches(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern, re.ASCII).fullmatch
    return lambda text: match(text) is not None


_HOSTNAME: Final = matcher(
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}"
    r"[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_CREDIT_CARD: Final = _matches(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_CHANNEL: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_ISBN10: Final = _matches("[0-9]{9}X|[0-9]{10}")
_ISBN13: Final = _matches("[0-9]{13}")
_SSN: Final = _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_DATE: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile("([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_WORDED_DURATION: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_SHORT_NAME: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MAC: Final = _matches(
    r"[0-9a-fA-F]{12}|[0-9a-fA-F]{16}|[0-9a-fA-F]{40}|"
    r"(?:[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}"
    r"|[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){7}|[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){7}"
    r"|[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){19}|[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){19}"
    r"|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){3}|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){9})"
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_UNIT_WORDS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_UNIT_SIGNS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})


def is_hostname(text: str) -> bool:
    return _HOSTNAME(text) and len(text.encode()) <= 255 and all(len(part.encode()) <= 63 for part in text.split("."))


def _is_dotted_quad(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(part.isascii() and part.isdigit() and int(part) <= 255 for part in parts)


def _is_ipv6_literal(text: str) -> bool:
    if "%" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_ipv4(text: str) -> bool:
    return "." in text and (_is_dotted_quad(text) or _is_ipv6_literal(text))


def is_ipv6(text: str) -> bool:
    return ":" in text and _is_ipv6_literal(text)


def is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()):
        return False
    if _is_dotted_quad(address):
        return int(bits) <= 32
    return _is_ipv6_literal(address) and int(bits) <= 128


def is_object_id(text: str) -> bool:
    return len(text) == 24 and all(c in "0123456789abcdefABCDEF" for c in text)


def _without(text: str, dropped: str) -> str:
    return "".join(c for c in text if c not in dropped)


def is_isbn10(text: str) -> bool:
    digits = _without(text, " \t\n\f\r-")
    if not _ISBN10(digits):
        return False
    values = [10 if c == "X" else int(c) for c in digits]
    return sum(position * value for position, value in enumerate(values, 1)) % 11 == 0


def is_isbn13(text: str) -> bool:
    digits = _without(text, " \t\n\f\r-")
    if not _ISBN13(digits):
        return False
    checksum = sum(int(c) * (3 if position % 2 else 1) for position, c in enumerate(digits[:12]))
    return int(digits[12]) == (10 - checksum % 10) % 10


def is_credit_card(text: str) -> bool:
    digits = "".join(c for c in text if c in "0123456789")
    if not _CREDIT_CARD(digits):
        return False
    doubled = [int(c) * 2 if position % 2 else int(c) for position, c in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def is_ssn(text: str) -> bool:
    return len(text.encode()) == 11 and _SSN(text)


def is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = (int(found.group(i)) for i in (1, 2, 3))
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1]:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return leap or (month, day) != (2, 29)


def is_date_time(text: str) -> bool:
    if len(text.encode()) < 4:
        return False
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    found = _TIME.fullmatch(parts[1])
    return found is not None and found.group(1) <= "23" and found.group(2) <= "59" and found.group(3) <= "59"


def is_duration(text: str) -> bool:
    try:
        parse_duration(text)
        return True
    except GoError:
        pass
    recognised = False
    for found in _WORDED_DURATION.finditer(text):
        if int(found.group(1)) > 2**63 - 1:
            return False
        unit = found.group(2).lower()
        recognised = recognised or unit in _UNIT_SIGNS or unit.startswith(_UNIT_WORDS)
    return recognised


def is_short_name(text: str) -> bool:
    return len(text.encode()) <= 63 and _SHORT(text)


def is_long_name(text: str) -> bool:
    return len(text.encode()) <= 253 and _LONG(text)


_SHORT: Final = _matches(_SHORT_NAME)
_LONG: Final = _matches(rf"{_SHORT_NAME}(\.{_SHORT_NAME})*")

FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": is_object_id,
    "uri": is_request_uri,
    "email": is_email,
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "cidr": is_cidr,
    "mac": _MAC,
    "uuid": _matches(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
    "uuid3": _matches(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
    "uuid4": _matches(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
    "uuid5": _matches(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "creditcard": is_credit_card,
    "ssn": is_ssn,
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)"),
    "byte": _matches(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "k8sshortname": is_short_name,
    "k8slongname": is_long_name,
}
"""Predicates by normalised name."""


def format_check(name: str) -> Callable[[str], bool] | None:
    """The predicate behind a format name, None for a name the server does not know (and therefore ignores)."""
    return FORMATS.get(name.replace("-", ""))
