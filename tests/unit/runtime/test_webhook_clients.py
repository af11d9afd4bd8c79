"""Webhooks answer the API server, and where it is known by a certificate nobody else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from muster.apiserver.auth.access import Access
from muster.apiserver.auth.webhook_identity import LIFETIME, WEBHOOK_CLIENT, WebhookIdentity
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.http import server_context
from muster.http.pool import UpstreamPool
from muster.http.tls import load_chain
from muster.http.upstream import UpstreamError, encode_request
from muster.kube.certificates import CertificateAuthority, KeyPair
from muster.runtime.webhook.certificates import make_pair
from muster.runtime.webhook.clients import WebhookClients, announced_clients, clients_in_file
from muster.runtime.webhook.server import AdmissionRequest, AdmissionResponse, WebhookServer, allow

NOW = datetime.now(UTC)
REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE"}}
DAY = timedelta(days=1)


async def yes(request: AdmissionRequest) -> AdmissionResponse:
    return allow()


class Door:
    """A webhook server that lets the holders of some certificates in."""

    def __init__(self) -> None:
        self.authority = CertificateAuthority.create("front-proxy", NOW)
        self.clients = WebhookClients(self.authority.pem, frozenset({"apiserver"}))
        self.serving = make_pair(("127.0.0.1",), NOW, DAY)
        self.server = WebhookServer(server_context(self.serving.cert, self.serving.key, self.clients.ca), self.clients)
        self.server.admission("/judge", yes)

    async def ask(self, shown: KeyPair | None, path: str = "/judge") -> int:
        context = ssl.create_default_context(cadata=self.serving.ca.decode())
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if shown is not None:
            await asyncio.to_thread(load_chain, context, shown.certificate, shown.key)
        pool = UpstreamPool(max_idle=1)
        asked = encode_request("POST", path, [("Host", "h"), ("Content-Type", "application/json")], orjson.dumps(REVIEW))
        try:
            answer, _ = await pool.request(("127.0.0.1", self.server.port, context, None), asked, timeout=10, repeat=False)
        finally:
            pool.close()
        return answer.status


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    door = Door()
    await door.server.start("127.0.0.1", 0)
    yield door
    await door.server.stop(0.1)


async def test_the_api_server_is_answered_and_others_are_not(door: Door) -> None:
    issue = door.authority.issue
    assert await door.ask(issue("apiserver", NOW, DAY)) == 200
    assert await door.ask(None) == 401
    assert await door.ask(None, "/no-such-path") == 401
    assert await door.ask(issue("front-proxy-client", NOW, DAY)) == 401
    assert await door.ask(issue("apiserver", NOW - 2 * DAY, DAY)) == 401
    assert await door.ask(None, "/healthz") == 200


async def test_a_certificate_of_another_authority_opens_nothing(door: Door) -> None:
    stranger = CertificateAuthority.create("front-proxy", NOW).issue("apiserver", NOW, DAY)
    try:
        status = await door.ask(stranger)
    except UpstreamError:
        status = 401
    assert status == 401


async def test_the_embedded_server_says_by_which_certificate_it_is_known_and_renews_it() -> None:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await server.start()
    try:
        cluster = server.clusters["hub"]
        clients = await announced_clients(InProcessClient(server.client(cluster)))
        assert clients is not None
        assert clients.names == {WEBHOOK_CLIENT}
        times = [NOW]
        identity = WebhookIdentity(cluster.part(Access).key_store, lambda: times[0])
        first = await identity.pair()
        assert await identity.pair() is first
        times[0] += LIFETIME / 2
        second = await identity.pair()
        assert second is not first
        door = Door()
        door.clients = clients
        door.server = WebhookServer(server_context(door.serving.cert, door.serving.key, clients.ca), clients)
        door.server.admission("/judge", yes)
        await door.server.start("127.0.0.1", 0)
        try:
            assert await door.ask(first) == 200
            assert await door.ask(None) == 401
        finally:
            await door.server.stop(0.1)
    finally:
        await server.stop(grace=0.1)


def test_an_administrator_may_say_it_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(b"pem")
    assert clients_in_file(path, ("apiserver",)) == WebhookClients(b"pem", frozenset({"apiserver"}))
