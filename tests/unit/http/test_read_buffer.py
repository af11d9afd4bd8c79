"""All connections of a loop are read into one buffer: servers and pools that live beside each other, or are gone, take no room."""

import asyncio
import tracemalloc

from muster.http import HttpServer, UpstreamPool
from muster.http.message import Request, Response
from muster.http.readbuffer import READ_BUFFER

SITES = 8


async def echo(request: Request) -> Response:
    return Response(200, await request.read_body())


async def test_servers_and_pools_have_no_buffers_of_their_own() -> None:
    loop = asyncio.get_running_loop()
    UpstreamPool().protocol("test")
    tracemalloc.start()
    try:
        servers, pools = [HttpServer(echo) for _ in range(SITES)], [UpstreamPool() for _ in range(SITES)]
        connections = [pool.protocol("test") for pool in pools]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(servers) == len(connections) == SITES
    assert all(connection.loop is loop for connection in connections)
    assert taken < READ_BUFFER


async def test_what_servers_and_clients_of_one_loop_read_at_once_does_not_mix() -> None:
    servers, pools = [HttpServer(echo) for _ in range(SITES)], [UpstreamPool() for _ in range(SITES)]

    async def ask(number: int) -> bytes:
        await servers[number].start("127.0.0.1", 0)
        port = servers[number].port
        said = bytes([ord("a") + number]) * 700_000
        head = f"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {len(said)}\r\n\r\n".encode()
        _, heard = await pools[number].request(("127.0.0.1", port, None, None), head + said, timeout=5.0, repeat=False)
        return heard

    try:
        heard = await asyncio.gather(*map(ask, range(SITES)))
    finally:
        for pool in pools:
            pool.close()
        await asyncio.gather(*(server.stop(0.1) for server in servers))
    assert [set(answer) for answer in heard] == [{ord("a") + number} for number in range(SITES)]
    assert {len(answer) for answer in heard} == {700_000}
