"""Streams end when what they were begun with is lost, and only then."""

import asyncio

import pytest

from muster.runtime.client.errors import Unreachable
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, WORKS
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server import guard
from tests.unit.transport.server.fakes import agent, newcomer
from tests.unit.transport.server.hub import TestHub


async def test_lost_rights_end_streams_within_five_seconds_and_others_go_on(hub: TestHub) -> None:
    await hub.accept("cluster1")
    await hub.accept("cluster2")
    lost = await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
    kept = await hub.subscribe(agent("cluster2"), WORKS.data_type, "cluster2").started()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await hub.revoke("accepted-cluster1")
    assert await lost.code() == "PERMISSION_DENIED"
    assert loop.time() - began < 5.0
    assert not kept.task.done()
    assert await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").code() == "PERMISSION_DENIED"


async def test_a_token_that_counts_no_more_ends_its_streams(hub: TestHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SWEEP_INTERVAL", 0.05)
    await hub.stop()
    await hub.start()
    await hub.invite("bootstrap")
    listener = await hub.subscribe(newcomer(), CLUSTERS.data_type, "cluster1").started()
    hub.known.refused[newcomer().user.name] = RpcError(Code.UNAUTHENTICATED)
    assert await listener.code() == "UNAUTHENTICATED"


async def test_an_outage_ends_no_stream(hub: TestHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SWEEP_INTERVAL", 0.02)
    await hub.stop()
    await hub.start()
    await hub.invite("bootstrap")
    listener = await hub.subscribe(newcomer(), CLUSTERS.data_type, "cluster1").started()
    hub.known.refused[newcomer().user.name] = RpcError(Code.UNAVAILABLE)
    await asyncio.sleep(0.2)
    assert not listener.task.done()


async def test_a_change_that_cannot_be_judged_ends_streams_after_a_while(hub: TestHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "UNDECIDED_TIMEOUT", 0.3)
    await hub.accept("cluster1")
    listener = await hub.subscribe(agent("cluster1"), LEASE_ROW.data_type, "cluster1").started()
    hub.client.failing = Unreachable("hub", "away")
    await hub.revoke("accepted-cluster1")
    assert await listener.code() == "UNAVAILABLE"


async def test_when_other_authorities_are_trusted_everybody_is_looked_at_again(hub: TestHub) -> None:
    await hub.accept("cluster1")
    listener = await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
    other = await hub.subscribe(agent("cluster1", "agent2"), WORKS.data_type, "cluster1").started()
    hub.known.refused[agent("cluster1").user.name] = RpcError(Code.UNAUTHENTICATED)
    hub.guard.recheck_all()
    assert await listener.code() == "UNAUTHENTICATED"
    assert not other.task.done()
