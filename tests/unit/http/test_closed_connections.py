"""A connection that is closed is gone at once, and its buffers with it: TLS takes a third of a MiB for each, and a busy server has
few garbage collections."""

from __future__ import annotations

import asyncio

import pytest

from muster.http import Request, Response, StreamResponse, StreamWriter, UpstreamPool
from muster.http.upstream import UpstreamConnection, encode_request
from tests.support.holdings import garbage

from .conftest import Serve, Site
from .wire import WAIT

MANY = 5


async def answer(request: Request) -> Response | StreamResponse:
    async def run(writer: StreamWriter) -> None:
        writer.write(b"begun")
        await writer.closed

    return Response(200, b"done") if request.path == "/" else StreamResponse(200, (), run)


async def asked(pool: UpstreamPool, site: Site, path: str) -> UpstreamConnection:
    connection = await pool.connect(("127.0.0.1", site.port, site.tls, "localhost" if site.tls else None), WAIT)
    connection.exchange(encode_request("GET", path, [("Host", "test")]), bodiless=False)
    assert (await connection.answer()).status == 200
    return connection


async def parted(site: Site, *connections: UpstreamConnection) -> None:
    await site.emptied()
    async with asyncio.timeout(WAIT):
        while not all(connection.lost for connection in connections):  # noqa: ASYNC110 - as there
            await asyncio.sleep(0.01)
    await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/", "/stream"])
async def test_nothing_of_a_closed_connection_waits_for_a_collection(serve: Serve, path: str) -> None:
    site = await serve(answer)

    async def once() -> None:
        pool = UpstreamPool()
        connection = await asked(pool, site, path)
        assert await (connection.whole_body() if path == "/" else connection.body())
        connection.close()
        await parted(site, connection)
        pool.close()

    await once()
    with garbage() as found:
        for _ in range(MANY):
            await once()
    assert found == {}


async def test_what_was_read_of_a_lost_connection_can_still_be_taken(serve: Serve) -> None:
    site = await serve(answer)
    pool = UpstreamPool()
    connection = await asked(pool, site, "/")
    connection.close()
    await parted(site, connection)
    assert await connection.whole_body() == b"done"
    assert not connection.alive
    connection.abort()
    pool.close()
