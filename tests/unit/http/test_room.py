"""Connections and bodies beyond what a server has room for: who waits, who goes, who is refused, and that the rest is served."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from muster.http import Answer, BodyRefused, Request, Response
from muster.http import bodies as limits
from muster.http.bodies import BodyBudget
from muster.http.connections import ConnectionTable
from muster.http.listener import Listener

from .conftest import Serve
from .pki import Authority, client_context
from .wire import WAIT, request

SMALL = limits.SMALL_BODY


async def echo(incoming: Request) -> Answer:
    return Response(200, str(len(incoming.body)).encode())


async def trusting(incoming: Request) -> Answer:
    """Takes whoever names themselves by their word, and reads bodies of those alone."""
    name = incoming.headers.get("authorization")
    if name is None:
        return Response(401)
    incoming.connection.owner = name
    return Response(200, str(len(await incoming.read_body())).encode())


# Connections


async def test_a_connection_being_served_is_not_given_up_for_another(serve: Serve) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def wait(incoming: Request) -> Answer:
        begun.set()
        await release.wait()
        return Response(200, b"served")

    site = await serve(wait, max_connections=1, scheme="http")
    first = await site.peer()
    first.send(request("GET", "/wait"))
    async with asyncio.timeout(WAIT):
        await begun.wait()
    second = await site.peer()
    assert await second.ended()
    assert site.server.refused_connections == 1
    release.set()
    assert (await first.reply()).body == b"served"


async def test_an_idle_connection_gives_way_to_a_new_one(serve: Serve) -> None:
    site = await serve(echo, max_connections=1)
    first = await site.peer()
    assert (await first.get("/")).status == 200
    second = await site.peer()
    assert (await second.get("/")).status == 200
    assert await first.ended()


async def test_strangers_have_a_part_of_the_room_and_go_first(serve: Serve) -> None:
    site = await serve(trusting, max_connections=8, strangers=0.25, reads_bodies=True)
    friend = await site.peer()
    friend.send(request("GET", "/", "Authorization: friend"))
    assert (await friend.reply()).status == 200
    strangers = []
    for _ in range(5):
        strangers.append(await site.peer())
        assert (await strangers[-1].get("/")).status == 401
    for gone in strangers[:3]:
        assert await gone.ended()
    assert (await strangers[-1].get("/")).status == 401
    friend.send(request("GET", "/", "Authorization: friend"))
    assert (await friend.reply()).status == 200


async def test_a_client_certificate_is_a_proof_from_the_start(serve: Serve, server_ca: Authority, client_ca: Authority) -> None:
    site = await serve(echo, max_connections=4, strangers=0.25, scheme="https")
    cert, key, _ = client_ca.issue("somebody", client=True)
    known = await site.peer(client_context(server_ca, cert, key))
    assert (await known.get("/")).status == 200
    for _ in range(3):
        assert (await (await site.peer()).get("/")).status == 200
    assert (await known.get("/")).status == 200


class Visitor:
    def __init__(self, address: str, owner: str | None = None, busy: bool = False, silent: bool = False) -> None:
        self.address, self.owner, self.busy, self.silent, self.dropped = address, owner, busy, silent, False

    def waiting_since(self) -> float | None:
        return None if self.busy else 0.0

    def drop(self) -> None:
        self.dropped = True


def test_the_address_with_most_strangers_loses_its_first() -> None:
    table = ConnectionTable(100, 0.05, files=1000)
    visitors = [Visitor(address) for address in ("lone", "many", "many", "other", "many")]
    for visitor in visitors:
        assert table.make_room(10)
        table.add(visitor)
    assert table.make_room(10)
    assert [visitor.dropped for visitor in visitors] == [False, True, False, False, False]


def test_a_flood_that_says_nothing_does_not_push_out_those_who_speak() -> None:
    table = ConnectionTable(100, 0.04, files=1000)
    speaking, flood = Visitor("a", silent=True), [Visitor("a", silent=True) for _ in range(9)]
    for visitor in (speaking, *flood):
        assert table.make_room(10)
        table.add(visitor)
        if visitor is speaking:
            visitor.silent = False
            table.first_byte_received(visitor)
    assert not speaking.dropped
    assert [visitor.dropped for visitor in flood] == [True] * 6 + [False] * 3


def test_the_owner_with_most_connections_loses_an_idle_one_when_all_are_owned() -> None:
    table = ConnectionTable(4, 0.5, files=1000)
    visitors = [Visitor("a", "one"), Visitor("a", "two", busy=True), Visitor("a", "two"), Visitor("a", "two")]
    for visitor in visitors:
        table.add(visitor)
    assert table.make_room(10)
    assert [visitor.dropped for visitor in visitors] == [False, False, True, False]


def test_nobody_comes_in_when_everybody_is_being_served() -> None:
    table = ConnectionTable(2, 1.0, files=1000)
    for _ in range(2):
        table.add(Visitor("a", busy=True))
    assert not table.make_room(10)


def test_files_run_short_for_all_servers_of_a_process_alike() -> None:
    idle = Visitor("a")
    crowded, wanting = ConnectionTable(100, 1.0, files=50), ConnectionTable(100, 1.0, files=50)
    crowded.add(idle)
    assert (wanting.make_room(49), idle.dropped) == (True, False)
    assert (wanting.make_room(50), idle.dropped) == (True, True)
    assert not wanting.make_room(50)


async def test_running_out_of_files_neither_spins_nor_ends_the_listening() -> None:
    class Exhausted:
        """A listening socket whose process has no file left, twice."""

        def __init__(self) -> None:
            self.asked = 0

        def fileno(self) -> int:
            return 0

        def accept(self) -> object:
            self.asked += 1
            if self.asked <= 2:
                raise OSError(errno.EMFILE, "Too many open files")
            raise BlockingIOError

    readers: list[bool] = []

    class Loop:
        def add_reader(self, fd: int, callback: object) -> None:
            readers.append(True)

        def remove_reader(self, fd: int) -> None:
            readers.append(False)

        def call_later(self, seconds: float, callback: Callable[[], object]) -> object:
            retries.append(callback)
            return asyncio.get_running_loop().call_later(1000, lambda: None)

    retries: list[Callable[[], object]] = []
    shed: list[int] = []

    def shedding() -> bool:
        shed.append(1)
        return True

    opened = Exhausted()
    listener = Listener.__new__(Listener)
    listener._loop, listener._socket = Loop(), opened  # type: ignore[assignment]
    listener._accepted, listener._shed = lambda accepted: None, shedding
    listener._listen()
    listener._accept()
    assert (opened.asked, readers, len(shed)) == (1, [True, False], 1)
    retries.pop()()
    listener._accept()
    retries.pop()()
    listener._accept()
    assert (opened.asked, readers[-1]) == (3, True)


# Bodies


async def test_a_handler_that_reads_bodies_answers_on_the_head(serve: Serve) -> None:
    peer = await (await serve(trusting, reads_bodies=True)).peer()
    peer.send(request("POST", "/", "Content-Length: 1000000", "Expect: 100-continue"))
    reply = await peer.reply()
    assert (reply.status, reply.headers["connection"]) == (401, "close")
    assert await peer.ended()


async def test_a_handler_that_reads_bodies_gets_them_in_any_number_of_pieces(serve: Serve) -> None:
    peer = await (await serve(trusting, reads_bodies=True)).peer()
    for size in (0, 1, 100_000):
        peer.send(request("POST", "/", "Authorization: a", f"Content-Length: {size}"))
        for start in range(0, size, 33_333):
            peer.send(b"x" * min(33_333, size - start))
            await asyncio.sleep(0)
        assert (await peer.reply()).body == str(size).encode()


async def test_a_malformed_body_is_refused_also_after_its_request_was_begun(serve: Serve) -> None:
    peer = await (await serve(trusting, reads_bodies=True)).peer()
    peer.send(request("POST", "/", "Authorization: a", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n")
    await asyncio.sleep(0.05)
    peer.send(b"nonsense\r\n")
    assert (await peer.reply()).status == 400
    assert await peer.ended()


async def test_a_body_is_here_in_time_or_refused(serve: Serve) -> None:
    site = await serve(trusting, reads_bodies=True, body_timeout=0.1, min_body_progress=1, max_body_time=0.5)
    peer = await site.peer()
    peer.send(request("POST", "/", "Authorization: a", "Content-Length: 1000000"))

    async def trickle() -> None:
        while True:
            peer.send(b"x" * 100)
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    assert (await peer.reply()).status == 408
    trickling.cancel()


async def test_a_stranger_that_was_refused_is_not_read_without_end(serve: Serve) -> None:
    peer = await (await serve(trusting, reads_bodies=True)).peer()
    flood = b"x" * (64 * 1024 * 1024)
    peer.send(request("POST", "/", f"Content-Length: {len(flood)}"))
    assert await peer.flood(flood) < len(flood)


async def test_bodies_wait_for_room_and_slow_ones_give_way(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STALLED_BODY_TIMEOUT", 0.2)
    site = await serve(trusting, reads_bodies=True, max_body=100_000, max_bodies=100_000)
    slow, quick = await site.peer(), await site.peer()
    slow.send(request("POST", "/", "Authorization: a", "Content-Length: 90000") + b"x" * 100)
    await asyncio.sleep(0.05)
    quick.send(request("POST", "/", "Authorization: b", "Content-Length: 50000") + b"x" * 30_000)
    await asyncio.sleep(0.05)
    quick.send(b"x" * 20_000)
    assert (await quick.reply()).body == b"50000"
    refused = await slow.reply()
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")


async def test_a_holder_has_a_share_and_no_more() -> None:
    budget = BodyBudget(400, 10)
    holds = [budget.try_hold("a", 50), budget.try_hold("a", 50)]
    with pytest.raises(BodyRefused) as refused:
        budget.try_hold("a", 1)
    assert refused.value.status == 429
    for other in "bcd":
        budget.try_hold(other, 100)
    with pytest.raises(BodyRefused):
        budget.try_hold("e", 1)
    holds[0].release()
    holds[0].release()
    budget.try_hold("e", 50)
    assert budget.held == 400


async def test_a_line_advances_in_order_and_a_waiter_that_gives_up_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = BodyBudget(400, 10)
    first = budget.try_hold("a", 100)
    waiting = [asyncio.create_task(budget.hold("a", size, lambda: None)) for size in (60, 50, 40)]
    await asyncio.sleep(0)
    assert (await budget.hold("b", 100, lambda: None)).size == 100
    waiting[1].cancel()
    await asyncio.sleep(0)
    first.release()
    held = [(await one).size for one in (waiting[0], waiting[2])]
    assert (held, budget.held) == ([60, 40], 200)


async def test_a_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_LINE", 1)
    budget = BodyBudget(400, 10)
    budget.try_hold("a", 100)
    waiting = asyncio.create_task(budget.hold("a", 10, lambda: None))
    await asyncio.sleep(0)
    with pytest.raises(BodyRefused):
        await budget.hold("a", 10, lambda: None)
    waiting.cancel()


async def test_large_bodies_that_came_at_once_count_while_their_requests_wait(serve: Serve) -> None:
    release = asyncio.Event()

    async def wait(incoming: Request) -> Answer:
        await release.wait()
        return Response(200)

    size = SMALL + 1000
    site = await serve(wait, max_body=size, max_bodies=2 * size, scheme="http")
    served, other, refused = [await site.peer() for _ in range(3)]
    for peer in (served, other):
        peer.send(request("POST", "/", body=b"x" * 100))
    refused_first = await site.peer()
    refused_first.send(request("POST", "/", body=b"x" * size))
    refused.send(request("POST", "/", body=b"x" * size))
    statuses = set()
    async with asyncio.timeout(WAIT):
        for finished in asyncio.as_completed([refused.reply(), refused_first.reply()]):
            statuses.add((await finished).status)
            release.set()
    assert statuses == {429, 200}
    assert [(await peer.reply()).status for peer in (served, other)] == [200, 200]


async def test_small_header_fields_are_counted_as_they_come(serve: Serve) -> None:
    peer = await (await serve(echo, max_headers=20)).peer()
    peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a:b\r\n" * 30)
    assert (await peer.reply()).status == 431
