"""As whom and by whose word the gateway talks to a cluster: types of credentials, their ends and changes, and servers that do not
prove themselves (A6, D2-D5, D11, D12)."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import orjson
import pytest

from tests.e2e.gateway.conftest import GATEWAYS, SECRETS, GatewaySite, base64_of
from tests.e2e.gateway.test_failures import causes
from tests.support.administrator import RBAC, wait_for
from tests.support.client import Reply
from tests.support.client_certificates import client_certificate
from tests.support.kubectl import kubectl
from tests.support.recording_cluster import RecordingCluster, Talk, agree, answer

PODS = "/api/v1/pods"


@pytest.fixture
def cluster() -> Iterator[RecordingCluster]:
    with RecordingCluster() as made:
        yield made


@pytest.fixture
def other() -> Iterator[RecordingCluster]:
    """With an authority of its own."""
    with RecordingCluster() as made:
        yield made


def register(site: GatewaySite, cluster: RecordingCluster, token: str, **data: str) -> str:
    name = site.name("recorded")
    site.accept(name)
    told: dict[str, str | bytes] = {"endpoint": cluster.url, "ca.crt": cluster.ca, "token": token, **data}
    site.credential(name, "ServiceAccountToken", told)
    wait_for(lambda: site.seen(name), "the gateway")
    return name


def change(site: GatewaySite, name: str, **data: str | bytes) -> None:
    values = base64_of({key.replace("_", "."): value for key, value in data.items()})
    site.admin.patch(f"{SECRETS}/{name}", {"data": values}).expect(200)


def bearer(talk: Talk) -> str:
    lines = talk.data.decode("latin-1").split("\r\n")
    return next((line.removeprefix("Authorization: Bearer ") for line in lines if line.startswith("Authorization: ")), "")


def jwt(expires: float) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")

    return f"{part({'alg': 'RS256'})}.{part({'exp': int(expires), 'sub': 'system:serviceaccount:default:gateway'})}.c2lnbmVk"


def test_a_client_certificate_opens_a_cluster(site: GatewaySite) -> None:
    """A6: the type of the seed that is no token. ManagedServiceAccounts are shown in e2e/accounts."""
    spoke, name = site.spokes["foo"], site.name("certified")
    certificate, key = client_certificate(spoke, name)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}],
    }
    spoke.client().post(f"{RBAC}/clusterrolebindings", binding).expect(201)
    site.accept(name)
    data: dict[str, str | bytes] = {"endpoint": spoke.url, "ca.crt": spoke.ca.read_bytes(), "tls.crt": certificate, "tls.key": key}
    site.credential(name, "X509Certificate", data)
    site.wait_status(name, healthy=True)
    found = site.seen(name)
    assert found is not None
    assert found["spec"]["access"]["credential"]["type"] == "X509Certificate"
    assert key.decode().splitlines()[1] not in orjson.dumps(found).decode()
    path = "/api/v1/namespaces/default"
    assert site.through(name).get(path).body == spoke.client().get(path).body
    site.forget(name)


def test_a_secret_without_a_token_is_shown_as_what_it_is(site: GatewaySite, cluster: RecordingCluster) -> None:
    """D2."""
    name = site.name("tokenless")
    site.accept(name)
    site.credential(name, "ServiceAccountToken", {"endpoint": cluster.url, "ca.crt": cluster.ca})
    site.wait_status(name, healthy=False, reason="CredentialMissing")
    row = kubectl(site.hub, "get", "clustergateway", name, "--no-headers").expect().out.split()
    assert row[3] == "false"
    reply = site.proxy(name, PODS)
    assert (reply.status, causes(reply)) == (503, ["CredentialMissing"])
    assert cluster.every_talk == []
    site.forget(name)


def test_a_token_is_not_sent_after_its_end(site: GatewaySite, cluster: RecordingCluster) -> None:
    """D3."""
    token = jwt(time.time() + 5)
    name = register(site, cluster, token)
    assert site.proxy(name, PODS).status == 200
    assert [bearer(talk) for talk in cluster.talks] == [token]

    def refused() -> Reply | None:
        reply = site.proxy(name, PODS)
        return reply if reply.status != 200 else None

    reply = wait_for(refused, "the token's end")
    assert (reply.status, causes(reply)) == (503, ["CredentialExpired"])
    assert token.encode() not in reply.body
    count = len(cluster.talks)
    assert site.proxy(name, PODS).status == 503
    assert len(cluster.talks) == count
    site.wait_status(name, healthy=False, reason="CredentialExpired")
    site.forget(name)


def test_a_cluster_that_refuses_a_token_is_asked_again_with_the_newest(site: GatewaySite, cluster: RecordingCluster) -> None:
    """D3: the Secret changes while the request is under way, and the client hears nothing of it."""
    name = register(site, cluster, "former")

    def rotate(talk: Talk, head: bytes) -> None:
        if b"Bearer former" not in head:
            agree(talk, head)
            return
        change(site, name, token="fresh")
        talk.say(answer("401 Unauthorized", b"{}"))

    cluster.behaviour = rotate
    assert site.proxy(name, PODS).status == 200
    assert [bearer(talk) for talk in cluster.talks] == ["former", "fresh"]
    site.forget(name)


def test_the_clients_of_a_cluster_that_dies_hear_the_end_of_their_watches(site: GatewaySite, cluster: RecordingCluster) -> None:
    """D4."""
    name = register(site, cluster, "token")

    def begin(talk: Talk, head: bytes) -> None:
        talk.say(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{"type":"ADDED"}\n\r\n')
        talk.listen()

    cluster.behaviour = begin
    watches = [site.through(name).watch(PODS, timeout=30) for _ in range(3)]
    assert [events.take(1) for events in watches] == [[{"type": "ADDED"}]] * 3
    cluster.die()
    for events in watches:
        assert events.take(1) == []
        assert events.ended_by_server
    reply = site.proxy(name, PODS)
    assert (reply.status, causes(reply)) == (503, ["ClusterUnreachable"])
    assert site.proxy("foo", "/healthz").status == 200
    site.forget(name)


@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_a_server_that_does_not_prove_itself_hears_nothing(
    site: GatewaySite, cluster: RecordingCluster, other: RecordingCluster, wrong: str
) -> None:
    """D5: no request, and so no credential."""
    strange = {"tls-server-name": "api.elsewhere.example"} if wrong == "name" else {"ca.crt": other.ca.decode()}
    name = register(site, cluster, "token", **strange)
    site.wait_status(name, healthy=False, reason="CertificateMismatch")
    reply = site.proxy(name, PODS)
    assert (reply.status, causes(reply)) == (502, ["CertificateMismatch"])
    assert b"".join(talk.data for talk in cluster.every_talk) == b""
    site.forget(name)


def test_address_and_authority_change_without_a_restart(
    site: GatewaySite, cluster: RecordingCluster, other: RecordingCluster
) -> None:
    """D11: and what is under way at the former address goes on."""
    name = register(site, cluster, "token")
    more = []

    def begin(talk: Talk, head: bytes) -> None:
        talk.say(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{"type":"ADDED"}\n\r\n')
        more.append(talk)
        talk.listen()

    cluster.behaviour = begin
    events = site.through(name).watch(PODS, timeout=30)
    assert events.take(1) == [{"type": "ADDED"}]
    change(site, name, endpoint=other.url, ca_crt=other.ca)
    wait_for(lambda: site.proxy(name, PODS).status == 200 and other.talks, "requests at the new address")
    count = len(cluster.talks)
    for _ in range(10):
        assert site.proxy(name, PODS).status == 200
    assert len(cluster.talks) == count
    more[0].say(b'13\r\n{"type":"DELETED"}\n\r\n')
    assert events.take(1) == [{"type": "DELETED"}]
    events.close()
    assert more[0].ended.wait(30), "the former connection ends with it"
    site.forget(name)


def test_two_clusters_at_one_address_never_share_a_credential(site: GatewaySite, cluster: RecordingCluster) -> None:
    """D12."""
    names = {register(site, cluster, token): token for token in ("one", "two")}
    for turn in range(10):
        for name, token in names.items():
            assert site.proxy(name, f"/api/v1/{token}/{turn}").status == 200
    asked = [(bearer(talk), talk.data.split(b" ", 2)[1].decode()) for talk in cluster.talks]
    assert len(asked) == 20
    assert all(f"/{token}/" in path for token, path in asked)
    for name in names:
        site.forget(name)


def test_what_is_gone_on_the_hub_is_gone_at_once(site: GatewaySite, cluster: RecordingCluster) -> None:
    """D16."""
    name = register(site, cluster, "token")
    assert site.proxy(name, PODS).status == 200
    site.forget(name)
    wait_for(lambda: site.admin.get(f"{GATEWAYS}/{name}").status == 404, "the gateway to go")
    count = len(cluster.talks)
    assert site.proxy(name, PODS).status == 404
    assert len(cluster.talks) == count
