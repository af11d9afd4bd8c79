"""Servers that are restarted one after the other, as a rollout does it, and connections that come and go by the thousand.

`MUSTER_AGENTS` is how many agents there are (1,000 in the long run), `MUSTER_CYCLES` how many connections (10,000).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from bench.sides import resident

from muster.http.tls import client_context
from muster.runtime.client import HttpClient, load_kubeconfig
from muster.transport.contract.event import SubscriptionRequest
from muster.transport.contract.rows import WORKS
from muster.transport.contract.wire import SUBSCRIBE, encode_subscription_request
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.status import Code, RpcError
from tests.e2e.transport.conftest import GrpcServer, Site
from tests.support.grpc_crowd import GrpcCrowd
from tests.support.pki import Pair
from tests.support.processes import complaints
from tests.support.sites import beside_kube
from tests.support.work_author import WorkAuthor

pytestmark = beside_kube

AGENTS = int(os.environ.get("MUSTER_AGENTS", "8"))
CYCLES = int(os.environ.get("MUSTER_CYCLES", "200"))
AT_ONCE = 20
BACK_WITHIN = 30.0 + AGENTS / 5
"""Seconds; a machine that does other things beside takes its time."""
MOST_ATTEMPTS = 3
"""Of a stream on its way to another server, on average."""
MOST_GROWTH = 8.0
"""MiB."""


@pytest.fixture
def servers(site: Site) -> Iterator[list[GrpcServer]]:
    started = [site.server(name) for name in ("rolled-one", "rolled-two")]
    yield started
    for server in started:
        site.end(server)
        assert complaints(server.process.log) == []


def subscriptions(server: GrpcServer) -> float:
    """That were asked for since the server has started."""
    return server.metric("grpc_server_started_total", grpc_method="Subscribe")


def streams(server: GrpcServer) -> float:
    return server.metric("grpc_server_ce_subscribers")


@pytest.mark.timeout(180 + AGENTS * 1.5)
async def test_a_rollout_moves_all_agents_without_a_rush_and_loses_nothing(
    site: Site, servers: list[GrpcServer], tmp_path: Path
) -> None:
    names = [f"rolled-{number}" for number in range(AGENTS)]
    bootstrap = tmp_path / "bootstrap.yaml"
    bootstrap.write_text(yaml.safe_dump(site.bootstrap(*(f"127.0.0.1:{server.port}" for server in servers))))
    hub = HttpClient(load_kubeconfig(site.hub.cluster.kubeconfig))
    loop = asyncio.get_running_loop()
    author = WorkAuthor(hub, names, random.Random("rollout"))
    back: list[float] = []
    async with GrpcCrowd(names, [bootstrap], tmp_path / "agents", at_once=50) as crowd:
        began = loop.time()
        await crowd.until_current(90 + AGENTS)
        joined = loop.time() - began
        async with author.at_work():
            for leaving, staying in (servers, reversed(servers)):
                moving, asked = streams(leaving), subscriptions(staying)
                stopping = asyncio.create_task(asyncio.to_thread(leaving.stop))
                if moving:
                    await crowd.until_lost(20)
                    back.append(await crowd.until_current(BACK_WITHIN))
                    assert subscriptions(staying) - asked <= MOST_ATTEMPTS * moving + AT_ONCE
                await stopping
                await asyncio.to_thread(leaving.start)
        await author.until_right(crowd, BACK_WITHIN)
        applied = [one for cluster in crowd.clusters.values() for one in cluster.applied.items()]
        assert [one for one in applied if one[1] > 1] == []
    await hub.close()
    print(
        f"\n{AGENTS} agents joined in {joined:.1f} s; {author.changes} changes; all back "
        f"{', '.join(f'{seconds:.1f} s' for seconds in back)} after a server was told to stop"
    )


class Coming:
    """Connections that subscribe, or are turned away, and go again without a word."""

    def __init__(self, server: GrpcServer, authority: bytes, credential: Pair, cluster: str) -> None:
        self._server = server
        self._known, self._unknown = client_context(authority, alpn="h2"), client_context(authority, alpn="h2")
        self._known.load_cert_chain(credential.cert, credential.key)
        request = SubscriptionRequest(cluster_name=cluster, data_type=str(WORKS.data_type))
        self._request = encode_subscription_request(request)

    async def come(self, count: int) -> None:
        """So many, every fourth of them a stranger."""
        numbers = iter(range(count))

        async def one_after_another() -> None:
            for number in numbers:
                await self._cycle(stranger=number % 4 == 0)

        await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))

    async def _cycle(self, *, stranger: bool) -> None:
        channel = RpcChannel("127.0.0.1", self._server.port, tls=self._unknown if stranger else self._known)
        try:
            if stranger:
                with pytest.raises(RpcError, match=Code.UNAUTHENTICATED.name):
                    await self._subscribe(channel)
            else:
                await self._subscribe(channel)
        finally:
            await channel.close()

    async def _subscribe(self, channel: RpcChannel) -> None:
        async with channel.stream(SUBSCRIBE, self._request, timeout=30):
            return


def footprint(server: GrpcServer) -> tuple[int, int]:
    """Descriptors and metric series."""
    descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    return descriptors, len(server.series())


@pytest.mark.timeout(120 + CYCLES * 0.1)
async def test_connections_that_come_and_go_leave_nothing_behind(site: Site, tmp_path: Path) -> None:
    server = site.servers[0]
    agent = await asyncio.to_thread(site.joined, "passers-by", server)
    credential = Pair(agent.directory / "tls.crt", agent.directory / "tls.key")
    coming = Coming(server, site.signer.pair.cert.read_bytes(), credential, agent.name)
    await coming.come(max(100, CYCLES // 10))
    await settled(site, server)
    before, was = footprint(server), resident(server.process.pid)
    await coming.come(CYCLES)
    await settled(site, server)
    grown = (resident(server.process.pid) - was) / 1024 / 1024
    after = footprint(server)
    print(f"\n{CYCLES} connections: descriptors and series {before}, then {after}; {grown:+.1f} MiB")
    assert abs(after[0] - before[0]) <= 2
    assert after[1] == before[1]
    assert grown < MOST_GROWTH


async def settled(site: Site, server: GrpcServer) -> None:
    """Until only the agent is left."""
    await asyncio.to_thread(
        site.hub.wait, lambda: server.metric("grpc_server_active_connections") <= 1 or None, "connections to be gone"
    )
