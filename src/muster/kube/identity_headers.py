"""How names of users travel in header fields, those of a front proxy (X-Remote-*) and those of impersonation (Impersonate-*) alike.

The bytes of a value are UTF-8, though fields are read as latin-1. The key of an extra is the rest of a field's name, in lower case
and percent-encoded where a field's name could not hold it.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import well_formed
from muster.machinery.golang.urls import unescape

HeaderPairs = Iterable[tuple[str, str]]
"""Fields as they came: lower-case name and value, repeated ones repeated."""


def from_header(field: str) -> str:
    """A name in a header field."""
    if field.isascii():
        return field
    try:
        return field.encode("latin-1").decode()
    except UnicodeError:
        return field


def to_header(name: str) -> str:
    return name.encode().decode("latin-1")


def extra_fields(headers: HeaderPairs, prefix: str) -> dict[str, tuple[str, ...]]:
    """What the fields of a prefix say of a user, by key."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers:
        if name.startswith(prefix):
            key = _extra_key(name[len(prefix) :])
            found[key] = (*found.get(key, ()), from_header(value))
    return found


def _extra_key(encoded: str) -> str:
    """One that is encoded badly is taken as it is, so that nothing that was said of a user is lost."""
    try:
        return well_formed(unescape(encoded, "path"))
    except GoError:
        return encoded
