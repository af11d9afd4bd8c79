"""The encoding of users in headers, for front proxies (X-Remote-*) and for impersonation (Impersonate-*).

The bytes of a value are UTF-8, though headers are decoded as latin-1. The key of an extra is the rest of a header's name, in lower
case and percent-encoded if necessary.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import well_formed
from muster.machinery.golang.urls import unescape

HeaderPairs = Iterable[tuple[str, str]]
"""Headers as received: lower-case name and value, including repeated ones."""


def from_header(field: str) -> str:
    """A name in a header value."""
    if field.isascii():
        return field
    try:
        return field.encode("latin-1").decode()
    except UnicodeError:
        return field


def to_header(name: str) -> str:
    return name.encode().decode("latin-1")


def extra_fields(headers: HeaderPairs, prefix: str) -> dict[str, tuple[str, ...]]:
    """The extra fields with a prefix, by key."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers:
        if name.startswith(prefix):
            key = _extra_key(name[len(prefix) :])
            found[key] = (*found.get(key, ()), from_header(value))
    return found


def _extra_key(encoded: str) -> str:
    """An invalid encoding is kept unchanged, so that no information is lost."""
    try:
        return well_formed(unescape(encoded, "path"))
    except GoError:
        return encoded
