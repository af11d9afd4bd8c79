"""`python -m bench.wire_client CA deliveries|calls PORT PID CONNECTIONS EACH COUNT`: a raw HTTP/2 client that counts.

It opens windows as wide as they get, so that it has nothing to say while it is delivered to, and reads no more of frames than
it must: what is measured is the other process. The result is JSON on standard output.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from bench.sides import cpu_seconds, resident
from muster.http.filelimit import raise_file_limit
from muster.http.http2 import frames
from muster.http.http2.fields import encode
from muster.http.tls import client_context

SIZE = 1000
DELIVERED = frames.HEADER_SIZE + 5 + SIZE
AT_ONCE = 50


def _request(stream: int, path: bytes, message: bytes) -> bytes:
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":path", path),
        (b":authority", b"bench"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"bench"),
    )
    data = b"\0" + len(message).to_bytes(4, "big") + message
    return frames.headers(stream, encode(fields), end=False) + frames.frame(frames.DATA, frames.END_STREAM, stream, data)


class Counter(asyncio.Protocol):
    """`heads` are the frames of HEADERS that came, `data` the bytes of DATA with their frames."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._rest = b""
        self.heads = 0
        self.data = 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        window = (frames.INITIAL_WINDOW_SIZE, frames.LARGEST_WINDOW)
        self.transport.write(
            frames.PREFACE
            + frames.settings((window,))
            + frames.window_update(0, frames.LARGEST_WINDOW - frames.DEFAULT_WINDOW)
            + frames.SETTINGS_ACK
        )

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        position = 0
        while len(data) - position >= frames.HEADER_SIZE:
            high, low, kind, flags, stream = frames.unpack_header(data, position)
            size = frames.HEADER_SIZE + (high << 16 | low)
            if len(data) - position < size:
                break
            position += size
            if kind == frames.DATA:
                self.data += size
            elif kind == frames.HEADERS:
                self.heads += 1
                if flags & frames.END_STREAM:
                    self._clients.on_end(self, stream)
            elif kind == frames.PING and not flags & frames.ACK:
                self.transport.write(frames.ping(data[position - 8 : position], ack=True))
        self._rest = data[position:]

    def connection_lost(self, error: Exception | None) -> None:
        self._clients.lost += 1


class Clients:
    def __init__(self, port: int, pid: int, authority: bytes) -> None:
        self._port = port
        self._pid = pid
        self._tls: ssl.SSLContext = client_context(authority, alpn="h2")
        self.on_end: Callable[[Counter, int], None] = lambda counter, stream: None
        self.counters: list[Counter] = []
        self.lost = 0

    async def connect(self, connections: int, greeting: bytes) -> None:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one() -> None:
            async with turns:
                _, counter = await asyncio.get_running_loop().create_connection(
                    lambda: Counter(self),
                    "127.0.0.1",
                    self._port,
                    ssl=self._tls,
                    server_hostname="127.0.0.1",
                )
                counter.transport.write(greeting)
                self.counters.append(counter)

        await asyncio.gather(*[one() for _ in range(connections)])

    async def deliveries(self, connections: int, streams: int, rounds: int) -> dict[str, float]:
        before = resident(self._pid)
        subscriptions = [_request(2 * number + 1, b"/b/Subscribe", b"x") for number in range(streams)]
        await self.connect(connections, b"".join(subscriptions))
        await self._until(lambda: all(counter.heads >= streams for counter in self.counters))
        held = resident(self._pid) - before
        control = self.counters[0]
        cpu, start = cpu_seconds(self._pid), time.monotonic()
        control.transport.write(_request(2 * streams + 1, b"/b/Deliver", b"%d %d" % (rounds, SIZE)))
        expected = rounds * streams * DELIVERED
        await self._until(lambda: all(counter.data >= expected for counter in self.counters))
        seconds, spent = time.monotonic() - start, cpu_seconds(self._pid) - cpu
        count = rounds * streams * len(self.counters)
        return {"deliveries": count, "seconds": seconds, "cpu": spent, "held": held}

    async def calls(self, connections: int, at_once: int, calls: int) -> dict[str, float]:
        await self.connect(connections, b"")
        numbers = dict.fromkeys(self.counters, 2 * at_once + 1)
        left = calls
        message = b"y" * SIZE

        def again(counter: Counter, stream: int) -> None:
            nonlocal left
            left -= 1
            number = numbers[counter]
            numbers[counter] = number + 2
            counter.transport.write(_request(number, b"/b/Echo", message))

        self.on_end = again
        cpu, start = cpu_seconds(self._pid), time.monotonic()
        for counter in self.counters:
            for number in range(at_once):
                counter.transport.write(_request(2 * number + 1, b"/b/Echo", message))
        await self._until(lambda: left <= 0)
        return {"calls": calls - left, "seconds": time.monotonic() - start, "cpu": cpu_seconds(self._pid) - cpu}

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(300):
            while not condition():  # looked at seldom, so that it costs nothing beside what is counted
                if self.lost:
                    raise RuntimeError(f"the server closed {self.lost} connections")
                await asyncio.sleep(0.02)


async def main(authority: bytes, what: str, port: str, pid: str, connections: str, each: str, count: str) -> None:
    raise_file_limit()
    clients = Clients(int(port), int(pid), authority)
    measure = clients.deliveries if what == "deliveries" else clients.calls
    print(json.dumps(await measure(int(connections), int(each), int(count))))


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]).read_bytes(), *sys.argv[2:]))
