"""Who does not read what comes through a tunnel stalls nobody else: requests go on beside followed logs and lists that are left
lying, all of them through the one tunnel that the cluster's agent holds."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GatewaySite
from tests.e2e.gateway.test_tunnel import Tunnelled
from tests.support.administrator import wait_for
from tests.support.client import Client
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import complaints
from tests.support.recording_cluster import RecordingCluster, Talk, answer
from tests.support.sites import beside_kube

pytestmark = beside_kube

PODS = ("a", "b", "c", "d")
LOG_OF = re.compile(rb"/pods/([^/]+)/log\?")
GETS = 100
CHUNK_SIZE = 65536
LOG = 512 * 2**20
"""Bytes: far more than sockets, the hub and the gateway hold of a stream together."""
STILL = 40
"""Looks in a row at which nothing more has been sent, by which a stream is known to be stalled."""


class Talkative(RecordingCluster):
    """Its logs are long; all else is answered at once."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.sent: dict[str, int] = {}
        """Bytes of each pod's log: by name, because requests sent at once arrive in any order."""
        self.ended: set[str] = set()

    def _answer(self, talk: Talk, head: bytes) -> None:
        asked = LOG_OF.search(head.split(b"\r\n", 1)[0])
        if asked is None:
            talk.say(answer())
            return
        pod = asked[1].decode()
        self.sent[pod] = 0
        try:
            talk.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
            while self.sent[pod] < LOG:
                talk.say(b"%x\r\n" % CHUNK_SIZE + b"x" * CHUNK_SIZE + b"\r\n")
                self.sent[pod] += CHUNK_SIZE
        finally:
            self.ended.add(pod)


@pytest.fixture
def talkative() -> Iterator[Talkative]:
    with Talkative() as cluster:
        yield cluster


@pytest.fixture
def behind(site: GatewaySite, talkative: Talkative) -> Iterator[Tunnelled]:
    name = site.name("talkative")
    directory = site.ground.directory / name
    directory.mkdir()
    ca, kubeconfig = directory / "ca.crt", directory / "kubeconfig"
    ca.write_bytes(talkative.ca)
    write_kubeconfig(kubeconfig, talkative.url, ca, {"token": "agents"})
    made = Tunnelled(site, name, Cluster(name, talkative.url, ca, kubeconfig), directory, token="gateways")
    made.prepare(tls_server_name="localhost")
    made.start()
    site.wait_status(name, healthy=True)
    yield made
    made.agent.stop()
    site.forget(name)
    assert complaints(made.agent.log) == []


def follow(client: Client, target: str) -> socket.socket:
    """Ask, and read nothing of the answer."""
    connection = client.connect()
    assert connection.sock is not None
    headers = client.headers(accept=None, content_type=None, user=None, extra=None)
    connection.request("GET", f"{client.prefix}{target}", headers=headers)
    return connection.sock


def test_requests_go_on_beside_streams_that_nobody_reads(site: GatewaySite, behind: Tunnelled, talkative: Talkative) -> None:
    pods = f"{GATEWAYS}/{behind.name}/proxy/api/v1/namespaces/default/pods"
    through = site.through(behind.name)
    with ExitStack() as stack:
        stalled = {pod: stack.enter_context(follow(site.hub.client(), f"{pods}/{pod}/log?follow=true")) for pod in PODS}
        wait_for(lambda: len(talkative.sent) == len(PODS) and all(talkative.sent.values()), "the logs to begin")
        seen: list[dict[str, int]] = []

        def at_rest() -> bool:
            seen.append(dict(talkative.sent))
            return seen[-STILL:] == [seen[-1]] * STILL

        wait_for(at_rest, "the logs to stall")
        held = dict(talkative.sent)
        assert max(held.values()) < LOG / 4, "what nobody reads is not sent"

        for _ in range(GETS):
            assert through.get("/api/v1/namespaces/default").status == 200
        assert max(talkative.sent.values()) < LOG / 4, "they are stalled still"
        assert not talkative.ended, "and open"

        again, *others = PODS
        taken = 0
        while taken < held[again] + CHUNK_SIZE:
            piece = stalled[again].recv(CHUNK_SIZE)
            assert piece, "the log goes on where it was"
            taken += len(piece)
        wait_for(lambda: talkative.sent[again] > held[again], "more of the log that is read again")
        assert max(talkative.sent[pod] for pod in others) < LOG / 4
    wait_for(lambda: talkative.ended == set(PODS), "logs to end with their readers")
