"""Encodes and decodes header fields by HPACK (RFC 7541), and validates them by RFC 9113, section 8.

Encoding uses neither the dynamic table nor Huffman codes: the few fields of a response are the same bytes each time, so they are
encoded once, and connections have no encoder state. Decoding uses the `hpack` library with a limit on the size of the decoded
fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hpack import Decoder, HPACKError, OversizedHeaderListError
from hpack.table import HeaderTable

Fields = list[tuple[bytes, bytes]]
"""Names in lower case, pseudo-header fields (`:path`) first."""

TABLE_SIZE: Final = 4096
"""The dynamic table of the peer's encoder, of which we keep a copy: RFC 7541's default."""

_STATIC: Final = {name: index for index, (name, _) in reversed(list(enumerate(HeaderTable.STATIC_TABLE, 1)))}
_STATIC_PAIRS: Final = {tuple(pair): index for index, pair in enumerate(HeaderTable.STATIC_TABLE, 1)}
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_BAD_VALUE: Final = re.compile(rb"[\r\n\0]").search
CONNECTION_FIELDS: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_REQUEST_FIELDS: Final = frozenset({b":method", b":scheme", b":authority", b":path"})
_NEEDED: Final = frozenset({b":method", b":scheme", b":path"})


_SECRET: Final = frozenset({b"authorization"})
_NEVER_INDEXED: Final = 0x10
"""Requests that intermediaries keep the field out of tables too."""


class MalformedFields(ValueError):
    """Fields that are invalid in any message: an error of one stream."""


class FieldsTooLarge(Exception):
    """More fields than the limit. The state of the table is not known then, so the connection ends."""


class UndecodableFields(Exception):
    """Invalid HPACK: an error of the connection."""


def encode(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Raises ValueError for invalid names and values."""
    block = bytearray()
    for name, value in fields:
        written = field_name(name)
        if _BAD_VALUE(value):
            # The value may be a credential, and is not repeated.
            raise ValueError(f"the header field {name!r} is no field of HTTP/2")
        pair = _STATIC_PAIRS.get((name, value))
        if pair is not None:
            block.append(0x80 | pair)
        else:
            block += written + integer(len(value), 7) + value
    return bytes(block)


@lru_cache(maxsize=1024)
def field_name(name: bytes) -> bytes:
    """The bytes before the length and value of a field. Raises ValueError for an invalid name."""
    if not _NAME(name.removeprefix(b":")):
        raise ValueError(f"the header field {name!r} is no field of HTTP/2")
    index = _STATIC.get(name)
    written = bytearray(b"\0" + integer(len(name), 7) + name if index is None else integer(index, 4))
    if name in _SECRET:
        written[0] |= _NEVER_INDEXED
    return bytes(written)


def integer(number: int, bits: int) -> bytes:
    """An integer of RFC 7541, 5.1, with a prefix of this number of bits."""
    largest = (1 << bits) - 1
    if number < largest:
        return bytes((number,))
    written = bytearray((largest,))
    number -= largest
    while number >= 128:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


class FieldDecoder:
    """One for each connection, since every block changes the state for the next.

    Except blocks that only refer to the table, as those of a client that repeats its requests: such a block has the same result as
    long as the table is unchanged, and is decoded once.
    """

    __slots__ = ("_block", "_decoder", "_entries", "_fields", "_state")

    def __init__(self, limit: int) -> None:
        """`limit` is for all fields of one block, each with the 32 bytes that RFC 7541 adds."""
        self._decoder = Decoder(max_header_list_size=limit)
        self._decoder.max_allowed_table_size = TABLE_SIZE
        self._entries = self._decoder.header_table.dynamic_entries
        self._block: bytes | None = None
        self._fields: Fields = []
        self._state = self._table_state()

    def decode(self, block: bytes) -> Fields:
        """The same list for the same block, which must not be changed."""
        before = self._table_state()
        if block == self._block and _same(before, self._state):
            return self._fields
        try:
            fields: Fields = list(self._decoder.decode(block, raw=True))
        except OversizedHeaderListError as error:
            raise FieldsTooLarge(str(error)) from None
        except (HPACKError, IndexError, ValueError) as error:
            raise UndecodableFields(str(error)) from None
        if _same(self._table_state(), before):
            self._block, self._fields, self._state = block, fields, before
        else:
            self._block = None
        return fields

    def _table_state(self) -> _TableState:
        entries = self._entries
        return entries[0] if entries else None, len(entries), self._decoder.header_table_size


_TableState = tuple[tuple[bytes, bytes] | None, int, int]
"""The first entry, the number of entries and the table's size. New entries come first, so the first one shows whether there were
any.
"""


def _same(one: _TableState, other: _TableState) -> bool:
    """Compares by identity: after an equal entry the others may differ."""
    return one[0] is other[0] and one[1:] == other[1:]


def check_request(fields: Fields) -> None:
    """Raises MalformedFields."""
    found = _pseudo(fields, _REQUEST_FIELDS)
    if found.keys() >= _NEEDED and found[b":path"]:
        return
    if found.get(b":method") == b"CONNECT" and found.keys() == {b":method", b":authority"}:
        return
    raise MalformedFields("a request has :method, :scheme and :path")


def check_response(fields: Fields) -> int:
    """The status. Raises MalformedFields."""
    status = _pseudo(fields, frozenset({b":status"})).get(b":status", b"")
    if len(status) != 3 or not status.isdigit():
        raise MalformedFields("an answer has a :status of three digits")
    return int(status)


def check_trailers(fields: Fields) -> None:
    """Raises MalformedFields."""
    _pseudo(fields, frozenset())


def _pseudo(fields: Fields, allowed: frozenset[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    regular = False
    for name, value in fields:
        if name[:1] == b":":
            if regular or name not in allowed or name in found:
                raise MalformedFields("a pseudo-header field is unknown, doubled or out of place")
            found[name] = value
            continue
        regular = True
        if not _NAME(name) or _BAD_VALUE(value):
            raise MalformedFields("a field name has upper case or other characters that it must not have, or a value a line break")
        if name in CONNECTION_FIELDS or (name == b"te" and value != b"trailers"):
            raise MalformedFields("HTTP/2 has no fields about the connection")
    return found


def content_length(fields: Fields) -> int | None:
    """Raises MalformedFields."""
    values = {value for name, value in fields if name == b"content-length"}
    if not values:
        return None
    value = values.pop()
    if values or not value.isdigit() or len(value) > 18:
        raise MalformedFields("content-length is no number, or several")
    return int(value)
