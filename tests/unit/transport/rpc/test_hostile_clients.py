"""Hostile clients on raw frames: each is ended or held back, others are answered meanwhile, and nothing of it stays.

The server is a process of its own, and so is every attack. With MUSTER_ATTACKS=full they come in full size (minutes, 10,000
connections); otherwise just large enough to be over the server's limits.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import http2_attacks, peers
from tests.support.http2_attacks import ATTACKS, Observation
from tests.support.http2_client import Bystander, Credentials, Target
from tests.support.pki import Authority
from tests.support.processes import Server

FULL = os.environ.get("MUSTER_ATTACKS") == "full"
SCALE = 1.0 if FULL else 0.02
P99 = 0.5
"""Seconds; a call that waits behind an attack takes far longer."""
GROWTH = 48 * 2**20

ENDED = {
    "rapid_reset",
    "provoked_reset",
    "continuation_flood",
    "empty_continuations",
    "hpack_bomb",
    "window_overflow",
}
"""What no honest client does: the connection is ended."""
HELD = {"ping_flood", "settings_flood"}
"""Ended, or no longer read from: both bound what is kept for answers."""


@dataclass
class Site:
    server: Server
    port: int
    known: Credentials
    stranger: Credentials

    @property
    def resident(self) -> int:
        pages = int(Path(f"/proc/{self.server.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def bystander(self) -> Bystander:
        return Bystander(Target("127.0.0.1", self.port, self.known.tls()))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("attacked")
    servers, clients = Authority(directory, "server-ca"), Authority(directory, "ca")
    serving = servers.issue("server", hosts=("127.0.0.1",))
    shutil.copy(serving.cert, directory / "tls.crt")
    shutil.copy(serving.key, directory / "tls.key")
    known = clients.issue("known")
    command: list[str | Path] = [sys.executable, "-m", "tests.support.rpc_server", directory]
    server = Server("rpc server", command, directory / "log", {"PYTHONPATH": str(peers.ROOT)})
    server.start()
    server.wait_until((directory / "port").exists)
    trusted = servers.pair.cert
    yield Site(server, int((directory / "port").read_text()), Credentials(trusted, known.cert, known.key), Credentials(trusted))
    server.stop(kill=True)


async def attack(site: Site, name: str, credentials: Credentials) -> Observation:
    """What became of it, seen that nobody else suffered."""
    async with site.bystander() as bystander:
        # What a server makes once, at its first connection, is nobody's.
        await until(lambda: len(bystander.samples) > 3)
        before = site.resident, site.descriptors
        began = time.monotonic()
        observed = await http2_attacks.run(name, "127.0.0.1", site.port, credentials, SCALE)
        p99 = bystander.p99(began, time.monotonic())
        assert bystander.statuses == {"0"}, f"honest calls ended with {bystander.statuses}"
    assert site.server.running, observed
    assert p99 < P99, f"honest calls took {p99:.3f} s (p99) during {observed}"
    await until(lambda: site.descriptors <= before[1])
    assert site.resident - before[0] < GROWTH, f"{(site.resident - before[0]) / 2**20:.0f} MiB stay after {observed}"
    return observed


async def until(condition: Callable[[], bool], timeout: float = 20) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.05)


@pytest.mark.timeout(600 if FULL else 120)
@pytest.mark.parametrize("name", ATTACKS)
async def test_a_strangers_attack_harms_nobody_else(site: Site, name: str) -> None:
    check(name, await attack(site, name, site.stranger))


@pytest.mark.timeout(600 if FULL else 120)
@pytest.mark.parametrize("name", ["rapid_reset", "ping_flood", "closed_windows", "trickled_bodies", "empty_data"])
async def test_an_agents_attack_harms_nobody_else(site: Site, name: str) -> None:
    """Somebody with a certificate gets further, and no further than its own connection."""
    check(name, await attack(site, name, site.known))


def check(name: str, observed: Observation) -> None:
    if name in ENDED:
        assert observed.goaway or observed.closed, observed
    if name == "empty_data":
        assert observed.goaway or observed.closed or observed.resets, observed
    if name in HELD:
        assert observed.goaway or observed.closed or observed.stalled, observed
    if name == "churn":
        assert observed.answers == observed.sent, observed
    if name in ("slow_handshakes", "silent_connections"):
        assert observed.closed + observed.refused == observed.sent, observed


WITHOUT_BODY = {
    "Sends a WINDOW_UPDATE frame on half-closed (remote) stream",
    "Sends a PRIORITY frame on half-closed (remote) stream",
}
"""Of its generic tests, those that wait for an answer with a body: errors of gRPC have none, whatever was sent before."""


def test_h2spec_finds_the_server_in_order(site: Site, tmp_path: Path) -> None:
    """It speaks no gRPC: what it asks for is answered with an error of gRPC, which is an answer of HTTP."""
    report = tmp_path / "report.xml"
    command = [str(peers.need("h2spec")), "-h", "127.0.0.1", "-p", str(site.port), "-t", "-k", "-o", "5", "-j", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {case.get("classname", "") for case in cases if case.find("failure") is not None or case.find("error") is not None}
    assert len(cases) > 100, done.stdout[-2000:]
    assert failed == WITHOUT_BODY, done.stdout[-4000:]
