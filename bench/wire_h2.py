"""The same two methods as `bench.wire_servers` has, with frames by the `h2` library: the candidate that decision 0017 was about.

It has one write per connection and loop turn as ours, and none of the limits: what is compared is the cost of frames.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

HEAD = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]


class H2Server:
    def __init__(self) -> None:
        self.streams: list[tuple[_Connection, int]] = []
        self.port = 0
        self._unflushed: list[_Connection] = []

    async def start(self, tls: ssl.SSLContext) -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0, ssl=tls, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]

    def flush_soon(self, connection: _Connection) -> None:
        if not self._unflushed:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unflushed.append(connection)

    def _flush(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            connection.flush()

    async def deliver(self, rounds: int, message: bytes) -> None:
        framed = b"\0" + len(message).to_bytes(4, "big") + message
        for _ in range(rounds):
            for connection, stream in self.streams:
                connection.h2.send_data(stream, framed)
                connection.touch()
            await asyncio.sleep(0)
            for connection in {connection for connection, _ in self.streams if connection.behind}:
                await connection.drained.wait()


class _Connection(asyncio.Protocol):
    def __init__(self, server: H2Server) -> None:
        self._server = server
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None, validate_inbound_headers=True))
        self._transport: Any = None
        self._bodies: dict[int, tuple[bytes, bytes]] = {}
        self._touched = False
        self.behind = False
        self.drained = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.h2.initiate_connection()
        self.touch()

    def pause_writing(self) -> None:
        self.behind = True
        self.drained.clear()

    def resume_writing(self) -> None:
        self.behind = False
        self.drained.set()

    def touch(self) -> None:
        if not self._touched:
            self._touched = True
            self._server.flush_soon(self)

    def flush(self) -> None:
        self._touched = False
        data = self.h2.data_to_send()
        if data:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, RequestReceived):
                path = next(value for name, value in event.headers if name == b":path")
                self._bodies[event.stream_id] = (bytes(path), b"")
            elif isinstance(event, DataReceived):
                path, body = self._bodies[event.stream_id]
                self._bodies[event.stream_id] = (path, body + event.data)
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self._answer(event.stream_id, *self._bodies.pop(event.stream_id))
        self.touch()

    def _answer(self, stream: int, path: bytes, body: bytes) -> None:
        self.h2.send_headers(stream, HEAD)
        if path.endswith(b"Subscribe"):
            self._server.streams.append((self, stream))
            return
        if path.endswith(b"Deliver"):
            rounds, size = map(int, body[5:].split())
            self._delivering = asyncio.get_running_loop().create_task(self._server.deliver(rounds, b"x" * size))
        self.h2.send_data(stream, body)
        self.h2.send_headers(stream, TRAILERS, end_stream=True)
