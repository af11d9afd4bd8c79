"""A server that says bytes, and a transport to talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from muster.machinery.clock import SYSTEM
from muster.runtime.client.kubeconfig import ClientConfig
from muster.runtime.client.transport import OutgoingRequest, Reply, Transport

Say = Callable[[asyncio.StreamWriter, int], Awaitable[bool]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Scripted:
    """A server whose answers are bytes: `say` writes the n-th one, and tells whether the connection goes on."""

    def __init__(self, say: Say) -> None:
        self.heads: list[str] = []
        self.connections = 0
        self._say = say

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("Content-Length:")), 0)
                await reader.readexactly(length)
                self.heads.append(head)
                if not await self._say(writer, len(self.heads)):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(say: Say) -> AsyncIterator[tuple[Scripted, str]]:
    script = Scripted(say)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    try:
        yield script, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@asynccontextmanager
async def transport(config: ClientConfig, environ: dict[str, str] | None = None) -> AsyncIterator[Transport]:
    opened = Transport(config, "test", SYSTEM, max_idle=4, environ=environ or {})
    try:
        yield opened
    finally:
        await opened.close()


async def ok(writer: asyncio.StreamWriter, number: int) -> bool:
    writer.write(OK)
    return True


async def get(transport: Transport, path: str = "/version", *, timeout: float = 5, **query: str) -> Reply:
    return await transport.send(OutgoingRequest("GET", path, query), (), timeout, idempotent=True)
