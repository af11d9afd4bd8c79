"""A watch that has ended is gone at once: on a hub some end every second, after they have lived too long for a cheap collection."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from tests.support.holdings import garbage

NAMESPACES = "/api/v1/namespaces"
MANY = 5


async def test_nothing_of_watches_that_were_left_waits_for_a_collection(server: ApiServer) -> None:
    client = InProcessClient(server.client(server.clusters["default"]))

    async def leave() -> None:
        async with aclosing(client.lines(NAMESPACES, {"watch": "true"}, None, None)) as lines:
            assert await anext(lines)

    await leave()
    with garbage() as found:
        for _ in range(MANY):
            await leave()
    assert found == {}


async def test_nothing_of_watches_whose_time_was_over_waits_for_a_collection(server: ApiServer) -> None:
    client = InProcessClient(server.client(server.clusters["default"]))

    async def outlive() -> None:
        async with aclosing(client.lines(NAMESPACES, {"watch": "true", "timeoutSeconds": "1"}, None, None)) as lines:
            assert [line async for line in lines]

    await outlive()
    with garbage() as found:
        await asyncio.gather(*(outlive() for _ in range(MANY)))
    assert found == {}
