"""Who is cut off when too much waits for clients that do not read: the worst of those, and never one that keeps up."""

from __future__ import annotations

import asyncio
import time

import pytest

from muster.http import Request, Response, StreamResponse, StreamWriter, backlogs
from tests.unit.http.conftest import Serve, Site
from tests.unit.http.wire import Peer, request

LARGE = 32 * 1024 * 1024


async def answer(asked: Request) -> Response:
    """A large answer for whoever asks by name."""
    asked.connection.owner = asked.path.split("/")[1]
    return Response(200, b"x" * int(asked.path.split("/")[2]))


async def look_again_later(site: Site, behind: int) -> int:
    """How many are cut once so many clients have read nothing for long."""
    server = site.server
    before = -1
    async with asyncio.timeout(20):
        while before != (now := sum(each.held() for each in server.backlogs._behind)) or len(server.backlogs._behind) < behind:
            before = now
            await asyncio.sleep(0.2)
    server.backlogs.sweep(time.monotonic())
    server.backlogs.sweep(time.monotonic() + backlogs.STALLED_SECONDS)
    return server.backlogs.cut


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlogs, "STALLED_SECONDS", 600.0)


async def is_cut(peer: Peer) -> bool:
    """Whether the rest of an answer ends before its end."""
    try:
        async with asyncio.timeout(10):
            return len((await peer.reply()).body) < LARGE // 2
    except (ConnectionError, asyncio.IncompleteReadError):
        return True


async def test_the_owner_of_too_much_loses_the_largest_that_nobody_reads(serve: Serve) -> None:
    site = await serve(answer, max_owner_backlog=2 * LARGE)
    greedy = [await site.peer() for _ in range(3)]
    modest = await site.peer()
    sizes = (LARGE, LARGE + LARGE // 2, LARGE)
    for peer, size in zip(greedy, sizes, strict=True):
        peer.send(request("GET", f"/greedy/{size}"))
    modest.send(request("GET", f"/modest/{LARGE}"))
    assert await look_again_later(site, 4) == 1
    assert [await is_cut(peer) for peer in greedy] == [False, True, False]
    assert not await is_cut(modest)


async def test_beyond_what_there_is_for_all_the_largest_goes_whoever_owns_it(serve: Serve) -> None:
    site = await serve(answer, max_backlog=3 * LARGE)
    peers = [await site.peer() for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.send(request("GET", f"/owner{number}/{LARGE * (number + 2) // 2}"))
    assert await look_again_later(site, 3) == 1
    assert [await is_cut(peer) for peer in peers] == [False, False, True]


async def test_one_that_reads_is_never_cut_however_slowly(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlogs, "STALLED_SECONDS", 0.5)
    site = await serve(answer, max_owner_backlog=LARGE // 4, max_backlog=LARGE // 4, header_timeout=0.4)
    peer = await site.peer()
    peer.send(request("GET", f"/reader/{LARGE}"))
    received = 0
    async with asyncio.timeout(60):
        while received < LARGE:
            received += len(await peer.reader.read(256 * 1024))
            await asyncio.sleep(0.01)
    assert site.server.backlogs.cut == 0


async def test_streams_count_too(serve: Serve) -> None:
    async def run(writer: StreamWriter) -> None:
        while not writer.is_closed:
            if not writer.is_behind:
                writer.write(b"x" * 100_000)
            await asyncio.sleep(0.001)

    async def handler(asked: Request) -> StreamResponse:
        return StreamResponse(200, (), run)

    site = await serve(handler, max_owner_backlog=1)
    peers = [await site.peer() for _ in range(5)]
    for peer in peers:
        peer.send(request("GET", "/"))
    assert await look_again_later(site, 5) == 5
    await site.emptied()
