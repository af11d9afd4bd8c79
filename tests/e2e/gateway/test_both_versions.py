"""The gateway's own port by HTTP/2, asked directly: callers prove who they are on every request, as on HTTP/1.1."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GatewaySite
from tests.support.h2_client import H2Client
from tests.support.planes import USERS

HEALTHZ = f"{GATEWAYS}/foo/proxy/healthz"


@pytest.fixture
async def straight(site: GatewaySite) -> AsyncIterator[H2Client]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # that its certificate is for a Service is looked at elsewhere
    context.set_alpn_protocols(["h2", "http/1.1"])
    client = await H2Client.connect(site.gateway.port, context)
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
