"""HTTP/2's frames (RFC 9113, sections 4 and 6): encoding, types and constants."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client."""
HEADER_SIZE: Final = 9
FRAME_LIMIT: Final = 16_384
"""The default maximum of a frame. We never raise it, since a frame is buffered until it is complete."""
LARGEST_FRAME: Final = (1 << 24) - 1
DEFAULT_WINDOW: Final = 65_535
LARGEST_WINDOW: Final = (1 << 31) - 1
LARGEST_STREAM: Final = (1 << 31) - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6


class ErrorCode(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


_HEADER: Final = Struct(">BHBBL")
_NUMBER: Final = Struct(">L")
_SETTING: Final = Struct(">HL")
_GOAWAY: Final = Struct(">LL")
_RESET: Final = Struct(">BHBBLL")

pack_number: Final = _NUMBER.pack
unpack_header: Final = _HEADER.unpack_from
unpack_setting: Final = _SETTING.iter_unpack
unpack_goaway: Final = _GOAWAY.unpack_from


def frame_header(size: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEADER.pack(size >> 16, size & 0xFFFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return frame_header(len(payload), kind, flags, stream) + payload


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(key, value) for key, value in values]))


SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0, b"")


def ping(payload: bytes, *, ack: bool = False) -> bytes:
    return frame(PING, ACK if ack else 0, 0, payload)


def goaway(last: int, code: int, reason: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, _GOAWAY.pack(last, code) + reason)


def reset(stream: int, code: int) -> bytes:
    return _RESET.pack(0, 4, RST_STREAM, 0, stream, code)


def window_update(stream: int, increment: int) -> bytes:
    return _RESET.pack(0, 4, WINDOW_UPDATE, 0, stream, increment)


def headers(stream: int, block: bytes, *, end: bool, limit: int = FRAME_LIMIT) -> bytes:
    """A header block in as many frames as necessary."""
    flags = END_STREAM if end else 0
    if len(block) <= limit:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    pieces = [block[start : start + limit] for start in range(0, len(block), limit)]
    written = [frame(HEADERS, flags, stream, pieces[0])]
    written += [frame(CONTINUATION, 0, stream, piece) for piece in pieces[1:-1]]
    written.append(frame(CONTINUATION, END_HEADERS, stream, pieces[-1]))
    return b"".join(written)
