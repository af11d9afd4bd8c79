"""Of three clusters one hangs, one resets and one trickles: requests to a healthy one fare as they do beside three well ones (D4).

Both are measured in turns in the same run, so that a busy machine is as busy for either. MUSTER_GATEWAY_ENDURANCE=full measures
longer, and says what it found.
"""

from __future__ import annotations

import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException

import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GatewaySite
from tests.e2e.gateway.replica import straight
from tests.support.administrator import wait_for
from tests.support.recording_cluster import Behaviour, RecordingCluster, Talk, agree
from tests.support.sites import beside_kube

FULL = os.environ.get("MUSTER_GATEWAY_ENDURANCE") == "full"
ROUNDS = 5 if FULL else 3
REQUESTS = 1000 if FULL else 50
"""Of one round."""
BESIDE = 4
"""Requests under way to each of the three, all the while."""
PACE = 0.05
FACTOR, LEAST = 5.0, 0.1
"""Not a benchmark: what must not be there are the seconds of a cluster that does not answer."""


def hang(talk: Talk, head: bytes) -> None:
    talk.listen()


def reset(talk: Talk, head: bytes) -> None:
    talk.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.connection.close()


def trickle(talk: Talk, head: bytes) -> None:
    talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        talk.say(b"1\r\n.\r\n")
        talk.ended.wait(0.02)


class Fleet:
    def __init__(self, site: GatewaySite, stack: ExitStack) -> None:
        self.site = site
        self.beside = [stack.enter_context(RecordingCluster()) for _ in range(3)]
        self.healthy = stack.enter_context(RecordingCluster())
        self.names = [self._register(cluster) for cluster in (*self.beside, self.healthy)]

    def _register(self, cluster: RecordingCluster) -> str:
        name = self.site.name("fleet")
        self.site.accept(name)
        self.site.credential(name, "ServiceAccountToken", {"endpoint": cluster.url, "ca.crt": cluster.ca, "token": "t"})
        self.site.wait_status(name, healthy=True)
        return name

    @contextmanager
    def busy(self, behaviours: tuple[Behaviour, ...]) -> Iterator[None]:
        """Requests to the three all the while, who behave like this."""
        over = threading.Event()

        def bother(name: str) -> None:
            client = straight(self.site.gateway, timeout=1)
            while not over.is_set():
                # Those who are told nothing in time give up and come again.
                _quietly(lambda: client.get(f"{GATEWAYS}/{name}/proxy/api/v1/pods"))
                client.close()
                over.wait(PACE)

        for cluster, behaviour in zip(self.beside, behaviours, strict=True):
            cluster.behaviour = behaviour
        before = [len(cluster.talks) for cluster in self.beside]
        threads = [threading.Thread(target=bother, args=(name,)) for name in self.names[:3] for _ in range(BESIDE)]
        for thread in threads:
            thread.start()
        try:
            pairs = list(zip(self.beside, before, strict=True))
            wait_for(lambda: all(len(cluster.talks) > count for cluster, count in pairs), "requests to the three")
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(30)

    def p99(self) -> float:
        taken = []
        client = straight(self.site.gateway)
        for _ in range(REQUESTS):
            began = time.perf_counter()
            assert client.get(f"{GATEWAYS}/{self.names[3]}/proxy/api/v1/pods").status == 200
            taken.append(time.perf_counter() - began)
        client.close()
        return statistics.quantiles(taken, n=100)[98]


def _quietly(ask: Callable[[], object]) -> None:
    """Whoever answers nothing, or breaks off, is asked again."""
    with suppress(OSError, HTTPException):
        ask()


@beside_kube
@pytest.mark.timeout(900 if FULL else 120)
def test_three_sick_clusters_do_not_hold_up_a_healthy_one(site: GatewaySite, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        fleet = Fleet(site, stack)
        well: list[float] = []
        sick: list[float] = []
        for _ in range(ROUNDS):
            for found, behaviours in ((well, (agree, agree, agree)), (sick, (hang, reset, trickle))):
                with fleet.busy(behaviours):
                    found.append(fleet.p99())
        if FULL:
            with capsys.disabled():
                shown = [", ".join(f"{1000 * one:.1f}" for one in found) for found in (well, sick)]
                print(f"\np99 of a healthy cluster in ms: {shown[0]} beside well ones, {shown[1]} beside sick ones")
        assert min(sick) < FACTOR * min(well) + LEAST
        for name in fleet.names:
            site.forget(name)
