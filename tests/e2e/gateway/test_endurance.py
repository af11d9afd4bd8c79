"""Whatever passes through leaves nothing behind: memory and descriptors of the gateway's process stay what they were.

MUSTER_GATEWAY_ENDURANCE=full makes 100,000 requests, 1,000 reconnects and 200 tunnels of it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.gateway.tunnel.agent import AgentOptions, TunnelAgent
from muster.runtime.client import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig, load_kubeconfig
from tests.e2e.gateway.conftest import GATEWAYS, GROUP, GatewaySite, rule
from tests.e2e.gateway.test_tunnel import ENDPOINT_TYPE
from tests.support.administrator import wait_for
from tests.support.client import Client
from tests.support.eventually import eventually
from tests.support.link import Link
from tests.support.planes import USERS
from tests.support.sites import beside_kube

FULL = os.environ.get("MUSTER_GATEWAY_ENDURANCE") == "full"
pytestmark = [] if FULL else [beside_kube]

REQUESTS = 100_000 if FULL else 2_000
RECONNECTS = 1_000 if FULL else 100
TUNNELS = 200 if FULL else 10
CYCLES = RECONNECTS // TUNNELS if FULL else 3
"""How often all tunnels end and are opened again."""
WARM = 1_000
WARM_CYCLES = 5 if FULL else 1
"""Of tunnels: until the history of their objects is as long as it may become."""
MAX_CONCURRENT_REVIEWS = 4
DIALLED_AT_ONCE = 16
GROWTH = 8 * 2**20
"""Bytes: what allocators and caches of answers take now and then. A KiB kept of each request would be far more in a full run."""
SPARE = 8
"""Descriptors: connections that are kept for the next request, to the cluster and to the hub."""
NAMESPACES = "/api/v1/namespaces"


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def straight(site: GatewaySite) -> Client:
    """To the gateway's own port; that its certificate is for a Service is looked at elsewhere."""
    return Client(f"https://127.0.0.1:{site.gateway.port}{GATEWAYS}/foo/proxy", token=USERS["admin"].token)


def ask(site: GatewaySite, count: int) -> None:
    def some(number: int) -> None:
        client = straight(site)
        # Few names: what the hub says of a name is remembered for a while.
        for turn in range(number):
            path = f"{NAMESPACES}/default" if turn % 4 else f"{NAMESPACES}/default/configmaps?limit=5"
            client.get(path).expect(200)
        client.close()

    with ThreadPoolExecutor(MAX_CONCURRENT_REVIEWS) as pool:
        list(pool.map(some, [count // MAX_CONCURRENT_REVIEWS] * MAX_CONCURRENT_REVIEWS))


class Footprint:
    """Of the gateway's process, at one moment."""

    def __init__(self, site: GatewaySite) -> None:
        assert site.gateway.process is not None
        self.pid = site.gateway.process.pid
        self.memory, self.files = resident(self.pid), descriptors(self.pid)
        self._began = time.monotonic()

    def check(self, what: str, capsys: pytest.CaptureFixture[str], spare: int = SPARE) -> None:
        """Since then nothing has stayed; what a full run measured is said."""
        memory, files = resident(self.pid), descriptors(self.pid)
        if FULL:
            shown = f"memory {self.memory / 2**20:.1f} to {memory / 2**20:.1f} MiB, descriptors {self.files} to {files}"
            with capsys.disabled():
                print(f"\n{what} in {time.monotonic() - self._began:.0f} s: {shown}")
        assert memory - self.memory < GROWTH
        assert files <= self.files + spare


@pytest.fixture
def unchanged(site: GatewaySite, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    ask(site, WARM)
    before = Footprint(site)
    yield
    wait_for(lambda: descriptors(before.pid) <= before.files + SPARE, f"{before.files} descriptors or a few more", timeout=40)
    before.check(f"{request.node.name} ({REQUESTS} requests or {RECONNECTS} reconnects)", capsys)


@pytest.mark.timeout(3600 if FULL else 120)
def test_requests_leave_nothing_behind(site: GatewaySite, unchanged: None) -> None:
    ask(site, REQUESTS)


@pytest.mark.timeout(3600 if FULL else 120)
def test_reconnects_leave_nothing_behind(site: GatewaySite, unchanged: None) -> None:
    """Clients that come, ask, open a watch and go: in order, in the middle of the stream, and with a reset."""
    for number in range(RECONNECTS):
        client = straight(site)
        client.get(f"{NAMESPACES}/default").expect(200)
        if number % 3 == 0:
            reset(client)
        else:
            with client.watch(NAMESPACES, {"timeoutSeconds": 60}) as watching:
                assert watching.take(number % 3 - 1) or number % 3 == 1
        client.close()


def reset(client: Client) -> None:
    """Open a watch and go without a word."""
    connection = client.connect()
    held = connection.sock
    headers = client.headers(accept=None, content_type=None, user=None, extra=None)
    connection.request("GET", f"{client.prefix}{NAMESPACES}?watch=1", headers=headers)
    response = connection.getresponse()
    assert response.status == 200
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    response.close()
    connection.close()
    held.close()


class Crowd:
    """Agents of many clusters in this process, each of which leads to foo. Their network can be cut."""

    def __init__(self, site: GatewaySite, clusters: list[str], token: str) -> None:
        self.site, self.clusters = site, clusters
        self._link = Link(site.hub.url)
        self._config = ClientConfig(
            self._link.url(site.hub.url), site.hub.ca, tls_server_name="127.0.0.1", identity=AuthInfo(token=token)
        )
        self._agents: dict[TunnelAgent, asyncio.Task[None]] = {}
        self._clients: list[HttpClient] = []

    async def open(self) -> None:
        """A tunnel for every cluster, a few at a time: real agents have machines of their own.

        If all begin TLS in this process at once, and it gets little of the machine, none is done before its timeout, and all begin
        again."""
        for first in range(0, len(self.clusters), DIALLED_AT_ONCE):
            self._begin(self.clusters[first : first + DIALLED_AT_ONCE])
            await eventually(self._all_open, "a tunnel for each of these clusters", timeout=120, poll=0.05)

    async def _all_open(self) -> bool:
        return all(agent.problem() is None for agent in self._agents)

    def _begin(self, clusters: list[str]) -> None:
        spoke = urlsplit(self.site.spokes["foo"].url)
        assert spoke.hostname is not None
        assert spoke.port is not None
        for name in clusters:
            client = HttpClient(self._config)
            options = AgentOptions(name, f"/apis/{GROUP}/v1alpha1", spoke.hostname, spoke.port, spoke.path.rstrip("/"))
            agent = TunnelAgent(client, options)
            self._clients.append(client)
            self._agents[agent] = asyncio.create_task(agent.run())

    async def close(self, *, cut: bool) -> None:
        """By a farewell of all agents, or because the network breaks."""
        if cut:
            self._link.cut()
        for task in self._agents.values():
            task.cancel()
        await asyncio.gather(*(agent.stop() for agent in self._agents))
        await asyncio.gather(*self._agents.values(), return_exceptions=True)
        for client in self._clients:
            await client.close()
        self._agents.clear()
        self._clients.clear()
        self._link.mend()

    async def ask(self, count: int) -> None:
        """So many requests through the tunnels in turn, few at a time; none fails."""
        config = ClientConfig(
            f"https://127.0.0.1:{self.site.gateway.port}", insecure=True, identity=AuthInfo(token=USERS["admin"].token)
        )
        client = HttpClient(config)

        async def some(clusters: list[str], number: int) -> None:
            for turn in range(number):
                path = f"{GATEWAYS}/{clusters[turn % len(clusters)]}/proxy{NAMESPACES}/default"
                assert b'"Namespace"' in await client.raw("GET", path)

        async with asyncio.TaskGroup() as group:
            for first in range(MAX_CONCURRENT_REVIEWS):
                group.create_task(some(self.clusters[first::MAX_CONCURRENT_REVIEWS], count // MAX_CONCURRENT_REVIEWS))
        await client.close()

    def end(self) -> None:
        self._link.close()


@pytest.fixture
def crowd(site: GatewaySite) -> Iterator[Crowd]:
    clusters = [site.name("crowd") for _ in range(TUNNELS)]
    data: dict[str, str | bytes] = {"ca.crt": site.spokes["foo"].ca.read_bytes(), "token": site.tokens["foo"]}
    for name in clusters:
        site.accept(name)
        site.credential(name, "ServiceAccountToken", data, **{ENDPOINT_TYPE: "Tunnel"})
    kubeconfig = site.ground.directory / "crowd.kubeconfig"
    kubeconfig.write_text(site.gateway.account(site.name("crowd"), [rule(["clustergateways/attach"], ["get"], (), GROUP)]))
    wait_for(lambda: site.seen(clusters[-1]), "the last cluster")
    found = Crowd(site, clusters, load_kubeconfig(kubeconfig, environ={}).identity.token)
    yield found
    found.end()
    for name in clusters:
        site.forget(name)


@pytest.mark.timeout(3600 if FULL else 120)
async def test_tunnels_that_end_and_come_back_leave_nothing_behind(
    site: GatewaySite, crowd: Crowd, capsys: pytest.CaptureFixture[str]
) -> None:
    await crowd.open()
    for _ in range(WARM_CYCLES):
        await crowd.ask(WARM)
        await crowd.close(cut=True)
        await crowd.open()
    await crowd.ask(WARM)
    before = Footprint(site)
    for cycle in range(CYCLES):
        await crowd.close(cut=bool(cycle % 2))
        await crowd.open()
        await crowd.ask(REQUESTS // CYCLES)
    # A probe beside a request may make a second connection of a cluster, which is kept: a pair of sockets for each.
    spare = SPARE + 2 * TUNNELS
    before.check(f"{TUNNELS} tunnels, {TUNNELS * CYCLES} reconnects, {REQUESTS} requests", capsys, spare)

    async def closed() -> bool:
        # At least the connection of its tunnel, and the pair that leads into it.
        return descriptors(before.pid) <= before.files - 2 * TUNNELS

    await crowd.close(cut=False)
    await eventually(closed, "the ends of all", timeout=30, poll=0.05)
