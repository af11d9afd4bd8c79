"""What the front asks the hub about a stream that is open, and what it answers when things change meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from muster.http import Answer, Request, StreamWriter
from muster.runtime.client import Unreachable
from tests.unit.gateway.authorization.hub import USER1, may_use, rule
from tests.unit.http.wire import Peer, request

from .conftest import StartCluster
from .front_scene import USER_TOKEN, FrontScene
from .scene import PREFIX, streaming


async def lasting(incoming: Request) -> Answer:
    async def wait(_: StreamWriter) -> None:
        await asyncio.Event().wait()

    return streaming(b"first", then=wait)


async def watching(scene: FrontScene) -> Peer:
    peer = await scene.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true", USER_TOKEN))
    assert (await peer.head())[0] == 200
    assert await peer.chunk() == b"first"
    return peer


USE, WATCH = may_use("foo", "get"), rule("foo/watch", "pods")


@pytest.mark.parametrize("left", [(USE,), (WATCH,), ()])
async def test_a_watch_is_cut_when_either_of_its_two_rights_ends(start_cluster: StartCluster, left: tuple[object, ...]) -> None:
    scene = FrontScene(USE, WATCH)
    await scene.start(await start_cluster(behaviour=lasting))
    peer = await watching(scene)
    await scene.rights.review()
    assert [who for who, _ in scene.hub.asked] == [USER1] * 4
    assert scene.hub.questions[:2] == scene.hub.questions[2:]
    assert scene.traffic.now == 1
    scene.hub.rules = left  # type: ignore[assignment]
    await scene.rights.review()
    assert await peer.ended()
    assert scene.traffic.now == 0
    await scene.stop()


async def test_a_hub_that_does_not_answer_cuts_nothing(start_cluster: StartCluster) -> None:
    scene = FrontScene(USE, WATCH)
    await scene.start(await start_cluster(behaviour=lasting))
    peer = await watching(scene)
    scene.hub.failure = Unreachable("https://hub", "connection refused")
    await scene.rights.review()
    assert scene.traffic.now == 1
    peer.close()
    await scene.stop()


async def test_a_request_whose_cluster_goes_while_it_is_judged_is_not_sent(start_cluster: StartCluster) -> None:
    cluster = await start_cluster()
    scene = FrontScene(USE, rule("foo/list", "pods"))
    await scene.start(cluster)
    authorize = scene.request_authorizer.authorize

    async def slow(*asked: object) -> object:
        decision = await authorize(*asked)  # type: ignore[arg-type]
        scene.known.targets.clear()
        return decision

    scene.request_authorizer.authorize = slow  # type: ignore[method-assign, assignment]
    peer = await scene.peer()
    assert (await peer.get(f"{PREFIX}/foo/proxy/api/v1/pods", USER_TOKEN)).status == 404
    assert cluster.received == []
    peer.close()
    await scene.stop()


async def test_nobody_is_called_a_stranger_before_it_is_known_by_what_callers_are_known(start_cluster: StartCluster) -> None:
    cluster = await start_cluster()
    scene = FrontScene(USE, rule("foo/list", "pods"))
    await scene.start(cluster)
    scene.callers.ready = False
    peer = await scene.peer()
    for fields in ((), (USER_TOKEN,)):
        assert (await peer.get(f"{PREFIX}/foo/proxy/api/v1/pods", *fields)).status == 503
    scene.callers.ready = True
    assert (await peer.get(f"{PREFIX}/foo/proxy/api/v1/pods", USER_TOKEN)).status == 200
    assert len(cluster.received) == 1
    peer.close()
    await scene.stop()
