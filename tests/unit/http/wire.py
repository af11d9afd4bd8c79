"""A client that speaks bytes, so that tests see exactly what is on the wire."""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple

WAIT = 20.0


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, context: ssl.SSLContext | None = None) -> Peer:
        name = "localhost" if context is not None else None
        async with asyncio.timeout(WAIT):
            return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def flood(self, data: bytes, patience: float = 0.4) -> int:
        """Send as much of `data` as the server takes; gives how much that was when it stopped for `patience` seconds."""
        piece = 256 * 1024
        for start in range(0, len(data), piece):
            self.send(data[start : start + piece])
            try:
                async with asyncio.timeout(patience):
                    await self.writer.drain()
            except TimeoutError:
                return start + piece
        return len(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(WAIT):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        status_line, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        fields = [line.partition(": ") for line in lines]
        return int(status_line.split(" ")[1]), {name.lower(): value for name, _, value in fields}

    async def chunk(self) -> bytes:
        async with asyncio.timeout(WAIT):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def reply(self, *, bodiless: bool = False) -> Reply:
        status, headers = await self.head()
        if bodiless:
            return Reply(status, headers, b"")
        body = b""
        if headers.get("transfer-encoding") == "chunked":
            while part := await self.chunk():
                body += part
        elif "content-length" in headers:
            async with asyncio.timeout(WAIT):
                body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            body = await self.rest()
        return Reply(status, headers, body)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        async with asyncio.timeout(WAIT):
            return await self.reader.read(-1)

    async def get(self, path: str, *extra: str) -> Reply:
        self.send(request("GET", path, *extra))
        return await self.reply()

    async def ended(self) -> bool:
        """Whether the server closes or cuts the connection without sending anything more."""
        try:
            return await self.rest() == b""
        except (ConnectionError, ssl.SSLError):
            return True

    def close(self) -> None:
        self.writer.transport.abort()


def request(method: str, path: str, *fields: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *fields]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
