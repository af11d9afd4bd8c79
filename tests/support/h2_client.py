"""A client of HTTP/2 on asyncio streams by `h2`, which we did not write: for tests of servers that are to understand others."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import StreamClosedError

WAIT = 20.0


class H2Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class H2Stream:
    """What has come of an answer so far."""

    head: list[tuple[str, str]] = field(default_factory=list)
    informational: list[int] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    reset: int | None = None
    ended: bool = False
    unread: int = 0
    """Bytes of it for which the server's window has not been opened again."""

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.head)


class H2Client:
    """`reads` are streams whose windows are opened as data come; the others' stay as they are until `read`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, validate: bool) -> None:
        config = H2Configuration(
            client_side=True,
            header_encoding="latin-1",
            validate_outbound_headers=validate,
            normalize_outbound_headers=validate,
        )
        self.h2 = H2Connection(config)
        self.reader = reader
        self.writer = writer
        self.streams: dict[int, H2Stream] = {}
        self.stalled: set[int] = set()
        self.goaways: list[int] = []
        self.closed = False
        self._changed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext, *, window: int | None = None, validate: bool = True) -> H2Client:
        async with asyncio.timeout(WAIT):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        assert secured.selected_alpn_protocol() == "h2", secured.selected_alpn_protocol()
        client = cls(reader, writer, validate=validate)
        client.h2.initiate_connection()
        client.h2.increment_flow_control_window(2**30)
        if window is not None:
            client.h2.update_settings({4: window})
        client.flush()
        return client

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and not self.closed:
            self.writer.write(data)

    def ask(
        self,
        path: str,
        method: str = "GET",
        headers: Iterable[tuple[str, str]] = (),
        *,
        end: bool = True,
    ) -> int:
        """Send a head; gives its stream."""
        fields = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost")]
        return self.open([*fields, *headers], end=end)

    def open(self, fields: list[tuple[str, str]], *, end: bool) -> int:
        number = self.h2.get_next_available_stream_id()
        self.streams[number] = H2Stream()
        self.h2.send_headers(number, fields, end_stream=end)
        self.flush()
        return number

    async def send(self, number: int, data: bytes, *, end: bool = False) -> None:
        """At the pace that the server allows."""
        while data:
            await self.until(lambda: self.h2.local_flow_control_window(number) > 0 or self.streams[number].reset is not None)
            size = min(len(data), self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
            self.h2.send_data(number, data[:size])
            data = data[size:]
            self.flush()
        if end:
            self.h2.end_stream(number)
            self.flush()

    async def answer(self, number: int) -> H2Answer:
        """The whole of it; raises ConnectionResetError if it breaks off."""
        stream = self.streams[number]
        await self.until(lambda: stream.ended or stream.reset is not None)
        if not stream.ended:
            raise ConnectionResetError(stream.reset)
        headers = stream.headers
        return H2Answer(int(headers.pop(":status")), headers, bytes(stream.body))

    async def get(self, path: str, *headers: tuple[str, str]) -> H2Answer:
        return await self.answer(self.ask(path, headers=headers))

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(WAIT), self._changed:
            while not condition():
                if self.closed:
                    raise ConnectionResetError("the connection is closed")
                await self._changed.wait()

    async def ended(self) -> None:
        """Until the server has closed the connection."""
        async with asyncio.timeout(WAIT):
            await asyncio.wait([self._reading])

    def reset(self, number: int, code: int = 8) -> None:
        self.h2.reset_stream(number, code)
        self.flush()

    def read(self, number: int) -> None:
        """Go on reading a stream that was stalled."""
        self.stalled.discard(number)
        stream = self.streams[number]
        if stream.unread:
            self.h2.increment_flow_control_window(stream.unread, number)
            stream.unread = 0
            self.flush()

    async def close(self) -> None:
        """Raises what made it stop reading, a breach of the protocol above all; to `h2`, everything after a GOAWAY is one."""
        self._reading.cancel()
        (read,) = await asyncio.gather(self._reading, return_exceptions=True)
        self.writer.transport.abort()
        if isinstance(read, Exception) and not self.goaways:
            raise read

    async def _read(self) -> None:
        try:
            while data := await self.reader.read(65536):
                for event in self.h2.receive_data(data):
                    self._received(event)
                self.flush()
                async with self._changed:
                    self._changed.notify_all()
        except (OSError, ssl.SSLError):
            pass
        finally:
            self.closed = True
            for stream in self.streams.values():
                if not stream.ended and stream.reset is None:
                    stream.reset = -1
            async with self._changed:
                self._changed.notify_all()

    def _received(self, event: Any) -> None:
        if isinstance(event, ConnectionTerminated):
            self.goaways.append(int(event.error_code or 0))
            return
        stream = self.streams.get(getattr(event, "stream_id", None) or 0)
        if stream is None or isinstance(event, WindowUpdated):
            return
        if isinstance(event, ResponseReceived):
            stream.head = [(str(name), str(value)) for name, value in event.headers]
        elif isinstance(event, InformationalResponseReceived):
            stream.informational.append(int(next(value for name, value in event.headers if str(name) == ":status")))
        elif isinstance(event, DataReceived):
            stream.body += event.data
            size = event.flow_controlled_length
            if not size:
                return
            self.h2.increment_flow_control_window(size)
            if event.stream_id in self.stalled:
                stream.unread += size
            else:
                with contextlib.suppress(StreamClosedError):  # its end has come with the same read
                    self.h2.increment_flow_control_window(size, event.stream_id)
        elif isinstance(event, StreamEnded):
            stream.ended = True
        elif isinstance(event, StreamReset):
            stream.reset = int(event.error_code)
