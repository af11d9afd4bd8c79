"""WebSocket (RFC 6455) as a codec without I/O, for tunnelling the bytes of another protocol: binary messages, and control frames.

Message boundaries are meaningless for a tunnel, so data are passed on as they arrive, also of incomplete frames, and only the
header of a frame and the at most 125 bytes of a control frame are buffered. Any violation of the protocol ends the connection:
`WebSocketFailure` has the close code.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED: Final = 1003
POLICY: Final = 1008
TOO_BIG: Final = 1009
"""Codes of close frames."""

VERSION: Final = "13"
MAX_FRAME: Final = 16 * 1024 * 1024
_ACCEPT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FIN: Final = 0x80
_MASKED: Final = 0x80
_LONGEST_CONTROL: Final = 125
_LONGEST_REASON: Final = 123


class WebSocketFailure(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Data:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Ping:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Pong:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Close:
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """A data frame without data, which is useless but costs processing."""


Event = Data | Ping | Pong | Close | Nothing


def new_key() -> str:
    """A value for Sec-WebSocket-Key."""
    return base64.b64encode(secrets.token_bytes(16)).decode()


def accept_value(key: str) -> str:
    """The value of Sec-WebSocket-Accept for a key."""
    return base64.b64encode(hashlib.sha1(key.encode() + _ACCEPT, usedforsecurity=False).digest()).decode()


def is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def masked(data: bytes, mask: bytes, offset: int = 0) -> bytes:
    """Mask or unmask data of a client; `offset` is the number of the frame's bytes before."""
    size = len(data)
    if not size:
        return b""
    turned = mask[offset & 3 :] + mask[: offset & 3]
    pattern = (turned * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")


class WebSocketCodec:
    """One side of a connection after its handshake; `client` is whether this is the client's side, which masks its data."""

    def __init__(
        self, *, client: bool, max_frame: int = MAX_FRAME, mask: Callable[[], bytes] = lambda: secrets.token_bytes(4)
    ) -> None:
        self._client = client
        self._max_frame = max_frame
        self._mask = mask
        self._header = b""
        """An incomplete frame header or control payload."""
        self._left = 0
        """Missing bytes of the current data frame."""
        self._frame_mask = b""
        self._offset = 0
        self._within_message = False
        self._closed = False

    # Sending

    def data(self, payload: bytes) -> bytes:
        """One message."""
        return self._frame(_BINARY, payload)

    def ping(self, payload: bytes = b"") -> bytes:
        return self._frame(_PING, payload)

    def pong(self, payload: bytes) -> bytes:
        return self._frame(_PONG, payload)

    def close(self, code: int = NORMAL, reason: str = "") -> bytes:
        text = reason.encode()[:_LONGEST_REASON].decode("utf-8", "ignore").encode()
        return self._frame(_CLOSE, code.to_bytes(2, "big") + text)

    def _frame(self, kind: int, payload: bytes) -> bytes:
        size = len(payload)
        flag = _MASKED if self._client else 0
        if size < 126:
            head = bytes((_FIN | kind, flag | size))
        elif size < 65536:
            head = bytes((_FIN | kind, flag | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((_FIN | kind, flag | 127)) + size.to_bytes(8, "big")
        if not self._client:
            return head + payload
        mask = self._mask()
        return head + mask + masked(payload, mask)

    # Receiving

    def feed(self, data: bytes) -> list[Event]:
        """The events in the received bytes. Raises WebSocketFailure. Data after a close frame are ignored."""
        events: list[Event] = []
        if self._header:
            data, self._header = self._header + data, b""
        position, end = 0, len(data)
        while position < end and not self._closed:
            if self._left:
                size = min(self._left, end - position)
                payload = data[position : position + size]
                if self._frame_mask:
                    payload = masked(payload, self._frame_mask, self._offset)
                self._offset += size
                self._left -= size
                position += size
                events.append(Data(payload))
                continue
            found = self._begin(data, position, events)
            if found is None:
                self._header = data[position:]
                break
            position = found
        return events

    def _begin(self, data: bytes, position: int, events: list[Event]) -> int | None:
        """Parse the header of the next frame, and the whole of a control frame; returns its end, or None if it is incomplete."""
        if len(data) - position < 2:
            return None
        first, second = data[position], data[position + 1]
        kind, size = first & 0x0F, second & 0x7F
        self._check(first, second, kind, size)
        position += 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(data) - position < width:
                return None
            size = int.from_bytes(data[position : position + width], "big")
            position += width
            if size > self._max_frame:
                raise WebSocketFailure(TOO_BIG, f"a frame has more than {self._max_frame} bytes")
        mask = b""
        if not self._client:
            if len(data) - position < 4:
                return None
            mask = data[position : position + 4]
            position += 4
        if kind >= _CLOSE:
            if len(data) - position < size:
                return None
            events.append(self._control(kind, masked(data[position : position + size], mask) if mask else data[position:][:size]))
            return position + size
        self._within_message = not first & _FIN
        self._left, self._frame_mask, self._offset = size, mask, 0
        if not size:
            events.append(Nothing())
        return position

    def _check(self, first: int, second: int, kind: int, size: int) -> None:
        if first & 0x70:
            raise WebSocketFailure(PROTOCOL_ERROR, "a frame has reserved bits, for an extension that was not negotiated")
        if bool(second & _MASKED) is self._client:
            raise WebSocketFailure(PROTOCOL_ERROR, "a client masks its frames, and a server does not")
        if kind in (_CLOSE, _PING, _PONG):
            if size > _LONGEST_CONTROL or not first & _FIN:
                raise WebSocketFailure(PROTOCOL_ERROR, "a control frame is too long or in pieces")
        elif kind == _TEXT:
            raise WebSocketFailure(UNSUPPORTED, "this carries bytes, and no text")
        elif kind not in (_BINARY, _CONTINUATION):
            raise WebSocketFailure(PROTOCOL_ERROR, "a frame of an unknown kind")
        elif (kind == _CONTINUATION) is not self._within_message:
            raise WebSocketFailure(PROTOCOL_ERROR, "a message begins within another, or goes on without having begun")

    def _control(self, kind: int, payload: bytes) -> Event:
        if kind == _PING:
            return Ping(payload)
        if kind == _PONG:
            return Pong(payload)
        self._closed = True
        if not payload:
            return Close(NORMAL, "")
        if len(payload) == 1:
            raise WebSocketFailure(PROTOCOL_ERROR, "a close frame has half a code")
        try:
            return Close(int.from_bytes(payload[:2], "big"), payload[2:].decode())
        except UnicodeDecodeError:
            raise WebSocketFailure(PROTOCOL_ERROR, "a close frame has words that are no UTF-8") from None
