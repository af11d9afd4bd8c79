"""Connects a stream of an HTTP/2 connection with a socket, in both directions, at the speed of the slower side.

A slow reader blocks only itself. Data that the socket does not accept stay with the peer, limited by the stream's window; the
connection's window is always opened, so that other streams continue. If the stream's window is closed, the socket is not read. So
the memory for one joint is bounded by `WINDOW` and one read.

The end of either side ends both, after its data: the protocol inside (TLS) has no half-close.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from muster.http.flow import GONE
from muster.http.http2.fields import Fields
from muster.http.http2.frames import ErrorCode
from muster.http.http2.stream import Stream

WINDOW: Final = 512 * 1024
"""Bytes of a stream that may be in flight to a socket."""
READ_BUFFER: Final = 64 * 1024
SOCKET_BYTES: Final = 128 * 1024
"""Bytes in the socket's transport above which the window is not extended."""


class Joint(asyncio.BufferedProtocol):
    """The handler of a stream and the protocol of a socket in one. The opener of the stream sets `stream`."""

    stream: Stream

    def __init__(self, loop: asyncio.AbstractEventLoop, read_buffer: memoryview) -> None:
        self._loop = loop
        self._read_buffer = read_buffer
        self._transport: Any = None
        self._early: list[bytes] = []
        """Data of the stream before the socket was connected."""
        self._full = False
        self._ended_here = False
        self._ended_there = False
        self._resuming: asyncio.Task[None] | None = None

    # The stream

    def head_received(self, fields: Fields) -> None:
        """The head of the response, on the client side."""

    def data_received(self, data: bytes) -> None:
        self.stream.consumed(len(data))
        if self._transport is None:
            self._early.append(data)
            return
        self._transport.write(data)
        self._allow()

    def ended(self, trailers: Fields) -> None:
        self._ended_there = True
        if self._transport is not None:
            self._transport.close()

    def lost(self, code: int | None) -> None:
        self._ended_there = self._ended_here = True
        if self._transport is None:
            return
        if code == ErrorCode.NO_ERROR:
            self._transport.close()
        else:
            self._transport.abort()

    def _allow(self) -> None:
        stream = self.stream
        if not self._full and stream.allowance * 2 < WINDOW:
            stream.allow(WINDOW)

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(SOCKET_BYTES)
        for data in self._early:
            self._transport.write(data)
        self._early.clear()
        if self.stream.closed:
            self._transport.abort()
        elif self._ended_there:
            self._transport.close()
        else:
            self._allow()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        stream = self.stream
        if self._ended_here or stream.closed:
            return
        stream.send(bytes(self._read_buffer[:nbytes]))
        if stream.unsent and self._resuming is None:
            self._transport.pause_reading()
            self._resuming = self._loop.create_task(self._resume())

    async def _resume(self) -> None:
        try:
            await self.stream.writable()
        except ConnectionResetError:
            return  # `lost` has been called, or we have ended it
        finally:
            self._resuming = None
        if self._transport is not GONE and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool | None:
        self._end()
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = GONE
        if error is None:
            self._end()
        elif not self._ended_here:
            self._ended_here = True
            self.stream.reset(ErrorCode.CANCEL)

    def _end(self) -> None:
        if not self._ended_here:
            self._ended_here = True
            self.stream.send(b"", end=True)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if not self.stream.closed:
            self._allow()
