"""What the front asks the hub about a stream that is open, and what it answers when things change meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from muster.http import Answer, Request, StreamWriter
from muster.runtime.client import Unreachable
from tests.unit.gateway.authorization.hub import USER1, may_use, rule
from tests.unit.http.wire import Peer, request

from .conftest import StartCluster
from .handler_harness import USER_TOKEN, HandlerHarness
from .harness import PREFIX, streaming


async def lasting(incoming: Request) -> Answer:
    async def wait(_: StreamWriter) -> None:
        await asyncio.Event().wait()

    return streaming(b"first", then=wait)


async def watching(harness: HandlerHarness) -> Peer:
    peer = await harness.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true", USER_TOKEN))
    assert (await peer.head())[0] == 200
    assert await peer.chunk() == b"first"
    return peer


USE, WATCH = may_use("foo", "get"), rule("foo/watch", "pods")


@pytest.mark.parametrize("left", [(USE,), (WATCH,), ()])
async def test_a_watch_is_cut_when_either_of_its_two_rights_ends(start_cluster: StartCluster, left: tuple[object, ...]) -> None:
    harness = HandlerHarness(USE, WATCH)
    await harness.start(await start_cluster(behaviour=lasting))
    peer = await watching(harness)
    await harness.stream_access.review()
    assert [who for who, _ in harness.hub.asked] == [USER1] * 4
    assert harness.hub.questions[:2] == harness.hub.questions[2:]
    assert harness.traffic.now == 1
    harness.hub.rules = left  # type: ignore[assignment]
    await harness.stream_access.review()
    assert await peer.ended()
    assert harness.traffic.now == 0
    await harness.stop()


async def test_a_hub_that_does_not_answer_cuts_nothing(start_cluster: StartCluster) -> None:
    harness = HandlerHarness(USE, WATCH)
    await harness.start(await start_cluster(behaviour=lasting))
    peer = await watching(harness)
    harness.hub.failure = Unreachable("https://hub", "connection refused")
    await harness.stream_access.review()
    assert harness.traffic.now == 1
    peer.close()
    await harness.stop()


async def test_a_request_whose_cluster_goes_while_it_is_judged_is_not_sent(start_cluster: StartCluster) -> None:
    cluster = await start_cluster()
    harness = HandlerHarness(USE, rule("foo/list", "pods"))
    await harness.start(cluster)
    authorize = harness.request_authorizer.authorize

    async def slow(*asked: object) -> object:
        decision = await authorize(*asked)  # type: ignore[arg-type]
        harness.known.targets.clear()
        return decision

    harness.request_authorizer.authorize = slow  # type: ignore[method-assign, assignment]
    peer = await harness.peer()
    assert (await peer.get(f"{PREFIX}/foo/proxy/api/v1/pods", USER_TOKEN)).status == 404
    assert cluster.received == []
    peer.close()
    await harness.stop()


async def test_nobody_is_called_a_stranger_before_it_is_known_by_what_callers_are_known(start_cluster: StartCluster) -> None:
    cluster = await start_cluster()
    harness = HandlerHarness(USE, rule("foo/list", "pods"))
    await harness.start(cluster)
    harness.callers.ready = False
    peer = await harness.peer()
    for fields in ((), (USER_TOKEN,)):
        assert (await peer.get(f"{PREFIX}/foo/proxy/api/v1/pods", *fields)).status == 503
    harness.callers.ready = True
    assert (await peer.get(f"{PREFIX}/foo/proxy/api/v1/pods", USER_TOKEN)).status == 200
    assert len(cluster.received) == 1
    peer.close()
    await harness.stop()
