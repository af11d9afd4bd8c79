"""The door of a fleet's gRPC server: connections go to servers that are ready, in turn, and end with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.fleet.local.ingress import ingress
from tests.support.processes import free_ports

HOST = "127.0.0.1"


@asynccontextmanager
async def echoing(name: bytes) -> AsyncIterator[tuple[str, int]]:
    """A server that says its name, and then what it hears."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name)
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield HOST, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def talk(port: int, words: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(words)
    writer.write_eof()
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


async def test_connections_go_to_those_that_are_ready_in_turn() -> None:
    (port,) = free_ports(1)
    async with echoing(b"a:") as a, echoing(b"b:") as b:
        targets = [a, b]

        async def look() -> list[tuple[str, int]]:
            return targets

        async with ingress(HOST, port, look):
            assert {await talk(port, b"x") for _ in range(2)} == {b"a:x", b"b:x"}
            big = b"x" * 3_000_000
            assert (await talk(port, big))[2:] == big
            targets.remove(a)
            assert {await talk(port, b"y") for _ in range(3)} == {b"b:y"}


async def test_nobody_ready_or_nobody_there_ends_the_connection_and_nothing_else() -> None:
    (port, dead) = free_ports(2)
    targets: list[tuple[str, int]] = []

    async def look() -> list[tuple[str, int]]:
        return targets

    async with ingress(HOST, port, look), echoing(b"a:") as a:
        assert await talk(port, b"") == b""
        targets.append((HOST, dead))
        assert await talk(port, b"") == b""
        targets[:] = [a]
        assert await talk(port, b"now") == b"a:now"


async def test_connections_end_with_the_door() -> None:
    (port,) = free_ports(1)
    async with echoing(b"a:") as a:

        async def look() -> list[tuple[str, int]]:
            return [a]

        async with ingress(HOST, port, look):
            reader, writer = await asyncio.open_connection(HOST, port)
            assert await reader.readexactly(2) == b"a:"
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection(HOST, port)
