"""The port of a gateway that offers HTTP/2, asked directly by it: callers prove who they are on every request, as on HTTP/1.1."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GatewaySite
from tests.e2e.gateway.replica import Replica
from tests.support.h2_client import H2Client
from tests.support.planes import USERS

HEALTHZ = f"{GATEWAYS}/foo/proxy/healthz"


@pytest.fixture(scope="module")
def offering(site: GatewaySite) -> Iterator[Replica]:
    replica = Replica(site.gateway, site.ground.directory / "http2-gateway")
    replica.start("--http2")
    yield replica
    replica.stop()


def http2() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # that its certificate is for a Service is looked at elsewhere
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture
async def straight(offering: Replica) -> AsyncIterator[H2Client]:
    client = await H2Client.connect(offering.port, http2())
    yield client
    await client.close()


async def test_a_client_of_http2_is_known_by_its_token(straight: H2Client) -> None:
    admin = ("authorization", f"Bearer {USERS['admin'].token}")
    answer = await straight.get(HEALTHZ, admin)
    assert (answer.status, answer.body) == (200, b"ok")
    # What one request has proved says nothing about the next on the connection.
    assert (await straight.get(HEALTHZ)).status in (401, 403)
    assert (await straight.get(HEALTHZ, ("authorization", "Bearer nobody"))).status == 401
    listed = await straight.get(GATEWAYS, admin)
    assert (listed.status, b'"foo"' in listed.body) == (200, True)
    watching = straight.ask(f"{GATEWAYS}?watch=1", headers=[admin])
    await straight.until(lambda: b"ADDED" in straight.streams[watching].body)
    straight.reset(watching)


async def test_a_claim_without_a_certificate_is_no_proof_on_http2_either(straight: H2Client) -> None:
    claims = (("x-remote-user", "admin"), ("x-remote-group", "system:masters"))
    assert (await straight.get(HEALTHZ, *claims)).status in (401, 403)
    assert (await straight.get(f"{GATEWAYS}/foo/proxy/../../bar/proxy/api", *claims)).status in (400, 401, 403)


async def test_who_was_not_told_to_offers_http1_alone(site: GatewaySite) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", site.gateway.port, ssl=http2())
    found = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.close()
    assert found in (None, "http/1.1"), "several replicas share the requests of an aggregator only so"
