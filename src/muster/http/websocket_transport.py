"""A WebSocket as an asyncio transport: a stream protocol (HTTP/2) runs over it as over a socket.

The WebSocket uses a `Pipe`: an upgraded connection of a server or a client. `run` reads it until either side ends, and calls the
protocol. Writing never waits: the protocol is paused while the pipe has more than `HIGH_WATER` unsent bytes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, Protocol

from muster.http.http2.guard import Guard
from muster.http.websocket import (
    GOING_AWAY,
    POLICY,
    Close,
    Data,
    Nothing,
    Ping,
    WebSocketCodec,
    WebSocketFailure,
)

HIGH_WATER: Final = 256 * 1024
CLOSE_SECONDS: Final = 5.0
"""Seconds for the peer to read our close frame."""
_NUISANCES: Final = (200.0, 20.0)
"""Control frames and empty ones: their burst, and their rate per second."""


class Pipe(Protocol):
    """A bidirectional byte stream. `read` returns empty bytes at the end, `close` sends pending data first."""

    async def read(self) -> bytes: ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class WebSocketTransport(asyncio.Transport):
    def __init__(self, pipe: Pipe, codec: WebSocketCodec, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._codec = codec
        self._protocol = protocol
        self._closing = False
        self._paused = False
        self._written = 0
        """Bytes since the pipe last reported free capacity."""
        self._high_water = HIGH_WATER
        self._behind = asyncio.Event()
        self._cut: asyncio.TimerHandle | None = None
        self._guard = Guard(*_NUISANCES, time.monotonic())

    def begin(self) -> None:
        """Before `run`, and once."""
        self._protocol.connection_made(self)

    async def run(self, initial: bytes = b"") -> None:
        """Run until the connection ends. `initial` are the bytes that came with the handshake."""
        error: Exception | None = None
        draining = asyncio.create_task(self._drain())
        try:
            data = initial or await self._pipe.read()
            while data and not self._take(data):
                data = await self._pipe.read()
        except WebSocketFailure as failure:
            error = failure
            self._send_close(failure.code, failure.reason)
        except OSError as problem:
            error = problem
        finally:
            draining.cancel()
            self._closing = True
            if self._cut is not None:
                self._cut.cancel()
            self._pipe.close()
            self._protocol.connection_lost(error)

    def _take(self, data: bytes) -> bool:
        """Returns whether this was the end. Raises WebSocketFailure."""
        for event in self._codec.feed(data):
            if isinstance(event, Data):
                if not self._closing:
                    self._hand_over(event.payload)
                continue
            if isinstance(event, Close):
                self._send_close(event.code if 1000 <= event.code < 5000 and event.code not in (1005, 1006) else GOING_AWAY, "")
                return True
            if not self._guard.charge(time.monotonic(), stranger=False):
                raise WebSocketFailure(POLICY, "too many control frames, or frames without data")
            if isinstance(event, Ping) and not self._closing:
                self._pipe.write(self._codec.pong(event.payload))
            elif isinstance(event, Nothing):
                continue
        return False

    def _hand_over(self, payload: bytes) -> None:
        protocol = self._protocol
        position = 0
        while position < len(payload):
            buffer = memoryview(protocol.get_buffer(-1))
            size = min(len(buffer), len(payload) - position)
            buffer[:size] = payload[position : position + size]
            protocol.buffer_updated(size)
            position += size

    # Methods of asyncio's transport

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._closing or not data:
            return
        self._pipe.write(self._codec.data(bytes(data)))
        self._written += len(data)
        if self._written > self._high_water and not self._paused:
            self._paused = True
            self._behind.set()
            self._protocol.pause_writing()

    async def _drain(self) -> None:
        while True:
            await self._behind.wait()
            self._behind.clear()
            try:
                await self._pipe.drain()
            except OSError:
                return  # the reader notices it
            self._written = 0
            self._paused = False
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = HIGH_WATER if high is None else max(high, HIGH_WATER)

    def get_write_buffer_size(self) -> int:
        return self._written if self._paused else 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._send_close(GOING_AWAY, "")
            self._pipe.close()
            # A peer that never reads our close frame is not waited for.
            self._cut = self._loop.call_later(CLOSE_SECONDS, self._pipe.abort)

    def abort(self) -> None:
        self._closing = True
        self._pipe.abort()

    def _send_close(self, code: int, reason: str) -> None:
        if not self._closing:
            self._closing = True
            self._pipe.write(self._codec.close(code, reason))
