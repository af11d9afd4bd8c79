"""What is under way when a cluster, or a right, is taken away: it ends, on both sides, wherever it waits."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from muster.gateway import refusals
from muster.gateway.relay import RequestAborted
from muster.gateway.relay.in_flight import InFlightRequest, NoTraffic
from muster.gateway.relay.limits import ClusterLoad, Limits, RequestKind
from muster.gateway.stream_access import REVIEW_INTERVAL, StreamAccessReviewer
from muster.gateway.target import Target
from muster.http import Answer, RawConnection, Request, StreamResponse, StreamWriter, Takeover
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.unit.http.wire import Peer, request

from .conftest import StartCluster, StartGateway
from .harness import PREFIX, Gateway, Known, arrived, streaming

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
WATCH = "/api/v1/pods?watch=true"
EXEC = "/api/v1/namespaces/a/pods/p/exec"
LOG = "/api/v1/namespaces/a/pods/p/log?follow=true"
LIST = "/api/v1/pods"
SILENT = "/api/v1/namespaces/a/pods/silent/log?follow=true"


class Lasting:
    """A cluster whose answers do not end, and which learns when they do."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    async def __call__(self, incoming: Request) -> Answer:
        self.begun += 1
        if incoming.upgrade:
            return Takeover(self._talk)
        if "silent" in incoming.path:
            try:
                await asyncio.Event().wait()
            finally:
                self.ended += 1
        return streaming(b"first", then=self._flood if "flood" in incoming.query else self._wait)

    async def _wait(self, writer: StreamWriter) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1

    async def _flood(self, writer: StreamWriter) -> None:
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        finally:
            self.ended += 1

    async def _talk(self, raw: RawConnection) -> None:
        raw.write(SWITCHED)
        try:
            while await raw.read():
                pass
        finally:
            self.ended += 1


async def opened(gateway: Gateway, path: str, cluster: str = "foo") -> Peer:
    peer = await gateway.peer()
    fields = ("Connection: Upgrade", "Upgrade: websocket") if path == EXEC else ()
    peer.send(request("GET", f"{PREFIX}/{cluster}/proxy{path}", *fields))
    if path != SILENT:
        assert (await peer.head())[0] in (101, 200)
    return peer


async def torn(peer: Peer) -> bool:
    """Whether the connection ends, and not as an answer does."""
    try:
        async with asyncio.timeout(20):
            rest = await peer.reader.read()
    except ConnectionError:
        return True
    return not rest.endswith(b"0\r\n\r\n")


async def ended(server: Lasting) -> None:
    async def look() -> bool:
        return server.ended == server.begun

    await eventually(look, "the cluster to be left", timeout=20, poll=0.01)


@pytest.mark.parametrize("path", [WATCH, EXEC, LOG, LIST])
async def test_all_that_is_under_way_to_a_cluster_ends_when_it_is_taken_away(
    start_cluster: StartCluster, start_gateway: StartGateway, path: str
) -> None:
    server, other = Lasting(), Lasting()
    gateway = await start_gateway(await start_cluster("foo", server), await start_cluster("bar", other))
    peers = [await opened(gateway, path) for _ in range(3)]
    beside = await opened(gateway, WATCH, "bar")
    gateway.relay.abort("foo", refusals.withdrawn("foo"))
    for peer in peers:
        assert await torn(peer)
    await ended(server)
    assert gateway.traffic.now == 1
    assert gateway.known.failures == []
    assert await beside.chunk() == b"first"
    assert (other.begun, other.ended) == (1, 0)
    # Whatever comes later is no business of that cut.
    later = await opened(gateway, path)
    gateway.relay.abort("bar", refusals.withdrawn("bar"))
    assert await torn(beside)
    assert server.begun - server.ended == 1
    later.close()


async def test_a_client_that_does_not_read_is_cut_too(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    server = Lasting()
    gateway = await start_gateway(await start_cluster("foo", server))
    await opened(gateway, f"{WATCH}&flood=true")

    async def stalled() -> bool:
        before = gateway.traffic.bytes_received
        await asyncio.sleep(0.05)
        return before == gateway.traffic.bytes_received > 0

    await eventually(stalled, "the stream to stall", timeout=20, poll=0.01)
    gateway.relay.abort("foo", refusals.withdrawn("foo"))
    await gateway.emptied()
    await ended(server)


async def test_a_request_without_an_answer_yet_is_told_why_there_is_none(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    server = Lasting()
    cluster = await start_cluster("foo", server)
    gateway = await start_gateway(cluster)
    peer = await opened(gateway, SILENT)
    await arrived(cluster, 1)
    gateway.relay.abort("foo", refusals.withdrawn("foo"))
    reply = await peer.reply()
    assert (reply.status, orjson.loads(reply.body)["details"]["causes"][0]["reason"]) == (503, "ClusterChanged")
    await gateway.emptied()
    await ended(server)


@pytest.mark.parametrize("kind", [StreamResponse, Takeover])
async def test_an_answer_that_is_cut_before_it_begins_lets_go_of_its_connection(kind: type[StreamResponse | Takeover]) -> None:
    let_go: list[bool] = []
    in_flight: set[InFlightRequest] = set()

    async def run(_: object) -> None:
        raise AssertionError("begun")

    def discard() -> None:
        let_go.append(True)

    known, load = Known(), ClusterLoad(Limits())
    load.acquire(RequestKind.STREAM, "user1")
    request = InFlightRequest(
        Target("foo"), RequestKind.STREAM, "user1", load, NoTraffic(), known, protocol="", backend=False, in_flight=in_flight
    )
    answer: Answer = StreamResponse(200, [], run, discard=discard) if kind is StreamResponse else Takeover(run, discard=discard)
    attended = request.track(answer)
    request.abort(refusals.withdrawn("foo"))
    with pytest.raises(RequestAborted):
        await attended.run(None)  # type: ignore[union-attr, arg-type]
    assert let_go == [True]
    assert not in_flight
    assert load.empty


# Rights


async def test_a_stream_whose_right_has_ended_is_cut_in_the_next_round(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    server, clock = Lasting(), FakeClock()
    gateway = await start_gateway(await start_cluster("foo", server))
    stream_access = asyncio.create_task(StreamAccessReviewer(gateway.relay.open_streams, clock=clock, random=lambda: 0.5).run())
    peers = [await opened(gateway, path) for path in (WATCH, EXEC, LOG)]
    plain = await opened(gateway, LIST)
    await clock.advance(REVIEW_INTERVAL)
    assert gateway.asked_again == len(peers)
    gateway.without_access.add("user1")
    await clock.advance(REVIEW_INTERVAL)
    for peer in peers:
        assert await torn(peer)

    async def only_one_left() -> bool:
        return server.begun - server.ended == gateway.traffic.now == 1

    # What does not last is not asked about.
    await eventually(only_one_left, "streams to end", timeout=20, poll=0.01)
    assert await plain.chunk() == b"first"
    stream_access.cancel()


async def test_without_an_answer_about_rights_no_stream_is_cut(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    server = Lasting()
    gateway = await start_gateway(await start_cluster("foo", server))
    peers = [await opened(gateway, WATCH) for _ in range(50)]
    gateway.trouble = ConnectionError("the hub is away")
    stream_access = StreamAccessReviewer(gateway.relay.open_streams)
    await stream_access.review()
    assert gateway.asked_again == len(peers)
    assert (server.begun, server.ended) == (50, 0)
    gateway.trouble = None
    gateway.without_access.add("user1")
    await stream_access.review()
    await ended(server)
    await gateway.emptied()
