"""Converts header fields to requests for handlers, and responses to header fields.

Handlers and servers behind a relay rely on the validation of an HTTP/1.1 parser. So nothing else becomes a `Request` here:
otherwise a field of HTTP/2 could become two lines of HTTP/1.1 later.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from http import HTTPMethod
from typing import Final

from muster.http.http2.fields import CONNECTION_FIELDS, Fields, encode, field_name, integer
from muster.http.message import Connection, HeaderFields, Headers, Request

CONTINUE: Final = encode(((b":status", b"100"),))
_METHODS: Final = {method.value.encode(): method.value for method in HTTPMethod}
_TARGET: Final = re.compile(rb"(?:/[!-~]*|\*)").fullmatch
_AUTHORITY: Final = re.compile(rb"[!-?A-~]+").fullmatch
"""Visible characters, without user information."""
_CONTROLS: Final = re.compile(rb"[\0-\x08\x0a-\x1f\x7f]").search
_BREAKS: Final = re.compile(rb"[\r\n\0]").search
_LENGTH: Final = b"content-length"
_DATE: Final = b"date"


class RefusedHead(Exception):
    """A head that is no valid request: the status of the response, and the reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class HeadReader:
    """One for each connection: clients that repeat requests send the same fields, which are converted once."""

    __slots__ = ("_fields", "_max_headers", "_read")

    def __init__(self, max_headers: int) -> None:
        self._max_headers = max_headers
        self._fields: Fields | None = None
        self._read: tuple[str, str, Headers]

    def request(self, fields: Fields, connection: Connection) -> Request:
        """`fields` are those of a validated request. Raises RefusedHead."""
        if fields is not self._fields:
            self._read = self._message(fields)
            self._fields = fields
        method, target, headers = self._read
        try:
            return Request(method, target, headers, connection, received=time.monotonic(), version="2.0")
        except ValueError as error:
            raise RefusedHead(400, f"malformed request target: {error}") from None

    def _message(self, fields: Fields) -> tuple[str, str, Headers]:
        pseudo: dict[bytes, bytes] = {}
        regular: Fields = []
        cookies: list[bytes] = []
        for name, value in fields:
            if name[:1] == b":":
                pseudo[name] = value
                continue
            if _CONTROLS(value) or value != value.strip(b" \t"):
                raise RefusedHead(400, "malformed request: a header field has characters that it must not have")
            if name == b"cookie":
                cookies.append(value)  # which HTTP/2 permits to be split
            else:
                regular.append((name, value))
        if cookies:
            regular.append((b"cookie", b"; ".join(cookies)))
        if len(regular) > self._max_headers:
            raise RefusedHead(431, "too many header fields")
        method = _METHODS.get(pseudo[b":method"])
        if method is None:
            raise RefusedHead(501, "malformed request: the method is not known")
        if method == "CONNECT":
            raise RefusedHead(405, "CONNECT is not served by HTTP/2")
        target = pseudo[b":path"]
        if not _TARGET(target) or b"#" in target:
            raise RefusedHead(400, "malformed request target: it is no path, or has characters that must be escaped")
        headers = Headers(_with_host(regular, pseudo.get(b":authority")))
        expect = headers.get("expect")
        if expect is not None and expect.lower() != "100-continue":
            raise RefusedHead(417, "the only expectation understood is 100-continue")
        return method, target.decode("ascii"), headers


def _with_host(fields: Fields, authority: bytes | None) -> Fields:
    """HTTP/1.1's Host field for the authority; an existing one must be equal."""
    hosts = [value for name, value in fields if name == b"host"]
    if authority is None and len(hosts) == 1:
        authority = hosts[0]
    if not authority or any(host != authority for host in hosts) or len(hosts) > 1:
        raise RefusedHead(400, "exactly one authority is required")
    if not _AUTHORITY(authority):
        raise RefusedHead(400, "malformed authority")
    return fields if hosts else [(b"host", authority), *fields]


def answer_head(status: int, headers: HeaderFields, content_type: str | None, date: str, length: int | None) -> bytes:
    """The header block of a response, without connection-specific fields. Raises ValueError for invalid fields."""
    block = bytearray(_status(status))
    if content_type is not None:
        block += _field("content-type", content_type)
    for name, value in headers:
        block += _field(name, value)
    if length is not None:
        block += _literal(_LENGTH, b"%d" % length)
    block += _literal(_DATE, date.encode())
    return bytes(block)


@lru_cache(maxsize=1024)
def _status(status: int) -> bytes:
    return encode(((b":status", b"%03d" % status),))


@lru_cache(maxsize=1024)
def _name(name: str) -> bytes:
    """The encoded name before a value; empty for connection-specific fields."""
    raw = name.lower().encode("latin-1")
    return b"" if raw in CONNECTION_FIELDS else field_name(raw)


def _field(name: str, value: str) -> bytes:
    raw = value.encode("latin-1")
    if _BREAKS(raw):
        raise ValueError("a response header field contains a line break or NUL")
    written = _name(name)
    return written + integer(len(raw), 7) + raw if written else b""


def _literal(name: bytes, value: bytes) -> bytes:
    return field_name(name) + integer(len(value), 7) + value
