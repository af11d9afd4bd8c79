"""Servers behind a SOCKS5 proxy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from muster.http import UpstreamUnavailable
from muster.http.socks import SocksPool
from muster.http.upstream import encode_request

from .conftest import Serve, describe


class SocksProxy:
    """Leads everything to one port; `asked` are the requests in bytes."""

    def __init__(self, *, password: bytes = b"", refusal: int = 0) -> None:
        self.asked: list[bytes] = []
        self.leads_to = 0
        self.port = 0
        self._password = password
        self._refusal = refusal

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            _, count = await reader.readexactly(2)
            offered = await reader.readexactly(count)
            method = 2 if self._password else 0
            if method not in offered:
                writer.write(b"\5\xff")
                return
            writer.write(bytes([5, method]))
            if method:
                _, size = await reader.readexactly(2)
                await reader.readexactly(size)
                [size] = await reader.readexactly(1)
                writer.write(b"\1\0" if await reader.readexactly(size) == self._password else b"\1\1")
            head = await reader.readexactly(4)
            size = {1: 4, 4: 16}.get(head[3]) or (await reader.readexactly(1))[0]
            self.asked.append(head[3:] + await reader.readexactly(size + 2))
            writer.write(bytes([5, self._refusal, 0, 1]) + bytes(6))
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.leads_to)
            with contextlib.closing(far_writer):
                ways = [asyncio.ensure_future(_pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)


@contextlib.asynccontextmanager
async def started(proxy: SocksProxy, to: int) -> AsyncIterator[SocksProxy]:
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
        proxy.leads_to, proxy.port = to, server.sockets[0].getsockname()[1]
        yield proxy


@pytest.mark.parametrize(
    ("host", "asked"), [("localhost", b"\3localhost\0\7"), ("127.0.0.1", b"\1\x7f\0\0\1\0\7"), ("localhost.", b"\3localhost.\0\7")]
)
async def test_a_server_is_reached_by_name_or_address(serve: Serve, host: str, asked: bytes) -> None:
    site = await serve(describe)
    async with started(SocksProxy(password=b"p@ss"), site.port) as proxy:
        pool = SocksPool(f"socks5://user:p%40ss@127.0.0.1:{proxy.port}")
        for _ in range(2):
            head, body = await pool.request(
                (host, 7, site.tls, None), encode_request("GET", "/x", [("Host", "h")]), timeout=5, repeat=True
            )
            assert (head.status, body.splitlines()[0]) == (201, b"GET /x")
        assert proxy.asked == [asked]
        pool.close()


async def test_what_the_proxy_refuses_is_told(serve: Serve) -> None:
    site = await serve(describe)
    asked = encode_request("GET", "/x", [("Host", "h")])
    for proxy, address, told in (
        (SocksProxy(refusal=2), "socks5://", "not allowed"),
        (SocksProxy(password=b"right"), "socks5://user:wrong@", "user and password"),
        (SocksProxy(password=b"right"), "socks5://", "another proof"),
    ):
        async with started(proxy, site.port):
            pool = SocksPool(f"{address}127.0.0.1:{proxy.port}")
            with pytest.raises(UpstreamUnavailable, match=told) as raised:
                await pool.request(("localhost", 7, site.tls, None), asked, timeout=5, repeat=True)
            assert not raised.value.sent
            assert "wrong" not in str(raised.value)
            pool.close()
