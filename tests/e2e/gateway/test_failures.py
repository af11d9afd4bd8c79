"""What goes wrong is named, by whom, and harms no other cluster; what is not plain does not reach one."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse

import orjson
import pytest

from tests.e2e.gateway.conftest import GATEWAYS, SECRETS, GatewaySite, base64_of
from tests.e2e.gateway.replica import straight
from tests.support.administrator import wait_for
from tests.support.kubectl import kubectl
from tests.support.pki import Authority
from tests.support.planes import USERS
from tests.support.processes import free_ports


def causes(reply: object) -> list[str]:
    return [one["reason"] for one in reply.json["details"]["causes"]]  # type: ignore[attr-defined]


def raw(site: GatewaySite, target: str, *, direct: bool = False, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Exactly this request target, through the hub or straight to the gateway's port."""
    parts = urllib.parse.urlsplit(site.hub.url)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = site.gateway.port if direct else parts.port
    prefix = "" if direct else parts.path
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=20)
    try:
        fields = {"Authorization": f"Bearer {USERS['admin'].token}"} if headers is None else headers
        connection.putrequest("GET", prefix + target, skip_host=False, skip_accept_encoding=True)
        for name, value in fields.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_cluster_that_nobody_knows_is_not_found(site: GatewaySite) -> None:
    """D1."""
    reply = site.proxy("nope", "/healthz")
    assert (reply.status, reply.json["reason"], reply.json["details"]["name"]) == (404, "NotFound", "nope")
    assert reply.json["details"]["kind"] == "clustergateways"


def test_a_cluster_without_a_credential_says_so(site: GatewaySite) -> None:
    """D2."""
    name = site.name("bare")
    site.accept(name, managedClusterClientConfigs=[{"url": "https://192.0.2.1:6443"}])
    site.wait_status(name, healthy=False, reason="CredentialMissing")
    reply = site.proxy(name, "/healthz")
    assert (reply.status, causes(reply)) == (503, ["CredentialMissing"])
    site.forget(name)


def test_a_cluster_that_is_away_is_unavailable_and_others_are_not(site: GatewaySite) -> None:
    """D4."""
    name, (port,) = site.name("away"), free_ports(1)
    site.accept(name)
    site.credential(name, "ServiceAccountToken", {"endpoint": f"https://127.0.0.1:{port}", "token": "x"})
    site.wait_status(name, healthy=False, reason="ClusterUnreachable")
    reply = site.proxy(name, "/healthz")
    assert (reply.status, causes(reply)) == (503, ["ClusterUnreachable"])
    assert site.proxy("foo", "/healthz").status == 200
    site.forget(name)


def test_a_cluster_with_another_certificate_hears_no_credential(site: GatewaySite) -> None:
    """D5."""
    name, stranger = site.name("other"), Authority(site.ground.directory, "stranger")
    site.accept(name)
    data: dict[str, str | bytes] = {"endpoint": site.spokes["foo"].url}
    data |= {"ca.crt": stranger.pair.cert.read_bytes(), "token": site.tokens["foo"]}
    site.credential(name, "ServiceAccountToken", data)
    site.wait_status(name, healthy=False, reason="CertificateMismatch")
    reply = site.proxy(name, "/healthz")
    assert (reply.status, causes(reply)) == (502, ["CertificateMismatch"])
    site.admin.patch(f"{SECRETS}/{name}", {"data": base64_of({"ca.crt": site.spokes["foo"].ca.read_bytes()})}).expect(200)
    wait_for(lambda: site.proxy(name, "/healthz").status == 200, "the right authority, without a restart")
    site.forget(name)


def test_a_token_that_the_cluster_refuses_is_not_the_callers_fault(site: GatewaySite) -> None:
    name = site.name("refused")
    site.accept(name)
    data: dict[str, str | bytes] = {"endpoint": site.spokes["foo"].url}
    data |= {"ca.crt": site.spokes["foo"].ca.read_bytes(), "token": "nobodys"}
    site.credential(name, "ServiceAccountToken", data)
    reply = wait_for(lambda: found if (found := site.proxy(name, "/api/v1/pods")).status != 404 else None, "the cluster")
    assert (reply.status, causes(reply)) == (503, ["CredentialRefused"])
    assert b"nobodys" not in reply.body
    site.forget(name)


PATHS = [
    "/../../bar/proxy/api",
    "/api/../../../bar/proxy/api",
    "/%2e%2e/%2e%2e/bar/proxy/api",
    "/%252e%252e/bar/proxy/api",
    "/api//v1",
    "/api%2Fv1",
    "/api%5Cv1",
    "/api%00",
    "/./api",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("direct", [False, True])
def test_what_is_not_plain_reaches_no_cluster(site: GatewaySite, path: str, direct: bool) -> None:
    """D7. What the hub's API server makes of such a path on the way is its own; no reading of it may lead to a cluster's answer
    but that of a plain path of the cluster that was named."""
    status, body = raw(site, f"{GATEWAYS}/foo/proxy{path}", direct=direct)
    if direct:
        assert status == 400, (status, body)
        assert json.loads(body)["reason"] == "BadRequest"
    else:
        assert status in (200, 301, 400, 404), (status, body)
        assert status != 200 or path in ("/api%2Fv1", "/%252e%252e/bar/proxy/api", "/api//v1"), (status, body)


def test_who_comes_straight_to_the_port_has_to_prove_who_they_are(site: GatewaySite) -> None:
    """C4, C5."""
    claimed = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    status, body = raw(site, f"{GATEWAYS}/foo/proxy/api", direct=True, headers=claimed)
    assert status == 403
    assert b"system:anonymous" in body
    status, _ = raw(site, f"{GATEWAYS}/foo/proxy/api", direct=True, headers={"Authorization": "Bearer nobody"})
    assert status == 401
    status, body = raw(site, f"{GATEWAYS}/foo/proxy/api/v1/namespaces/default", direct=True)
    assert status == 200, body
    token = {"Authorization": f"Bearer {USERS['mallory'].token}", "Impersonate-User": "admin"}
    status, body = raw(site, f"{GATEWAYS}/foo/proxy/api", direct=True, headers=token)
    assert status == 403
    assert b"impersonate" in body


def test_the_seeds_short_path_leads_there_when_asked_directly(site: GatewaySite) -> None:
    """A7."""
    reply = straight(site.gateway).get("/apis/open-cluster-management.io/clustergateways/foo/proxy/healthz")
    assert (reply.status, reply.body) == (200, b"ok")
    assert GATEWAYS in (reply.header("Warning") or "")
    assert raw(site, "/apis/open-cluster-management.io/clustergateways/foo/proxy/healthz")[0] == 404


def test_no_secret_is_told_to_anybody(site: GatewaySite) -> None:
    """C1: in objects, lists, tables, errors, logs, metrics or audit lines."""
    assert site.gateway.process is not None
    told = [
        site.admin.get(GATEWAYS).body,
        site.admin.get(GATEWAYS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).body,
        site.gateway.process.log.read_bytes(),
        site.gateway.audit_log.read_bytes(),
        site.proxy("foo", "/api/v1/nowhere").body,
        kubectl(site.hub, "get", "clustergateways", "-o", "yaml").expect().out.encode(),
        orjson.dumps(site.admin.watch(GATEWAYS, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}).take(2)),
    ]
    connection = http.client.HTTPConnection("127.0.0.1", site.gateway.health_port, timeout=10)
    connection.request("GET", "/metrics")
    metrics = connection.getresponse().read()
    assert b"ocm_proxy_proxied_requests_by_cluster_total" in metrics
    for token in site.tokens.values():
        for text in (*told, metrics):
            assert token.encode() not in text
