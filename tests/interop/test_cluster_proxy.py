"""A cluster behind upstream's cluster-proxy: a real API server in front of which are konnectivity's own server and agent."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from tests.e2e.gateway.conftest import GATEWAYS, SECRETS, GatewaySite, account, base64_of
from tests.e2e.gateway.test_through import CONFIG_MAPS, config_map
from tests.support import cluster_proxy, peers
from tests.support.administrator import wait_for
from tests.support.client import MERGE_PATCH
from tests.support.cluster_proxy import CLUSTER, ClusterProxyPeers
from tests.support.hub_components import GatewayHub
from tests.support.network_namespace import unavailable
from tests.support.pki import Authority
from tests.support.planes import Cluster, EmbeddedPlane, KubeOptions, KubePlane
from tests.support.processes import complaints
from tests.support.registration import Hub
from tests.support.streaming_kubelet import POD, streaming_kubelet
from tests.support.upstream_gateway import CREDENTIAL_TYPE, ENDPOINT_TYPE

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not cluster_proxy.built(), reason="konnectivity is not built: make -C peers/konnectivity"),
    pytest.mark.skipif(bool(unavailable()), reason=unavailable()),
]


@dataclass
class Behind:
    site: GatewaySite
    proxy: ClusterProxyPeers
    spoke: Cluster
    audit_log: Path

    def answers(self) -> bool:
        return self.site.proxy(CLUSTER, "/readyz").status == 200


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """The hub knows no address of the cluster, and nothing but the agent could use one."""
    directory = tmp_path_factory.mktemp("cluster-proxy")
    hub, plane = EmbeddedPlane(directory / "hub"), KubePlane(directory / "cluster", KubeOptions(fsync=False, audit_log=True))
    hub.start()
    plane.start()
    port = urlsplit(plane.url).port
    assert port is not None
    try:
        with ClusterProxyPeers(directory / "konnectivity", port) as proxy:
            own = proxy.client()
            flags = {"host": "127.0.0.1", "port": proxy.port, "ca-cert": proxy.ca, "cert": own.cert, "key": own.key}
            Hub(hub.cluster, directory / "install", webhooks=False).install()
            gateway = GatewayHub(hub.cluster, directory / "gateway", *(f"--proxy-{name}={value}" for name, value in flags.items()))
            gateway.install()
            gateway.start()
            site = GatewaySite(hub, gateway, {CLUSTER: plane.cluster})
            gateway.wait_reply(lambda: site.admin.get(GATEWAYS), "the aggregated API", 200, timeout=60)
            site.accept(CLUSTER)
            register(site, plane.cluster.ca.read_bytes(), account(plane.cluster))
            site.wait_status(CLUSTER, healthy=True)
            yield Behind(site, proxy, plane.cluster, plane.directory / "audit.log")
            gateway.stop()
            assert gateway.process is not None
            assert complaints(gateway.process.log) == []
    finally:
        plane.discard()
        hub.discard()


def register(site: GatewaySite, ca: bytes, token: str) -> None:
    """As upstream's addon-manager writes it, with upstream's labels."""
    labels = {CREDENTIAL_TYPE: "ServiceAccountToken", ENDPOINT_TYPE: "ClusterProxy"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": CLUSTER, "labels": labels}}
    site.admin.post(SECRETS, {**secret, "data": base64_of({"ca.crt": ca, "token": token})}).expect(201)


def test_requests_and_watches(behind: Behind) -> None:
    through, direct = behind.site.through(CLUSTER), behind.spoke.client()
    path = "/api/v1/namespaces/kube-system"
    assert through.get(path).body == direct.get(path).body
    assert "kube-system" in behind.site.kubectl(CLUSTER, "get", "ns").expect().out
    name = behind.site.name("watched")
    events = through.watch(CONFIG_MAPS, {"fieldSelector": f"metadata.name={name}"}, timeout=20)
    direct.post(CONFIG_MAPS, orjson.loads(config_map(name))).expect(201)
    assert next(iter(events))["type"] == "ADDED"
    direct.delete(f"{CONFIG_MAPS}/{name}").expect(200)
    assert next(iter(events))["type"] == "DELETED"


def test_large_bodies_both_ways(behind: Behind) -> None:
    text = "x" * 900_000
    through, names = behind.site.through(CLUSTER), [behind.site.name("large") for _ in range(8)]
    for name in names:
        through.post(CONFIG_MAPS, orjson.loads(config_map(name, text=text))).expect(201)
    listed = {one["metadata"]["name"]: one for one in through.get(CONFIG_MAPS).expect(200)["items"]}
    assert all(listed[name]["data"]["text"] == text for name in names)
    for name in names:
        through.delete(f"{CONFIG_MAPS}/{name}").expect(200)


@pytest.mark.skipif(not peers.is_built("kubelet"), reason="kubelet-streams is not built: make -C peers/kubelet")
@pytest.mark.parametrize("protocol", ["websocket", "spdy"])
def test_exec_takes_and_gives_megabytes(behind: Behind, tmp_path: Path, protocol: str) -> None:
    environment = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": str(protocol == "websocket").lower()}
    data = os.urandom(1_500_000).hex()
    with streaming_kubelet(behind.spoke, tmp_path / "kubelet"):
        ran = behind.site.kubectl(CLUSTER, "exec", "-i", POD, "--", "sha256sum", input=data, environment=environment)
        assert ran.expect().out.split()[0] == hashlib.sha256(data.encode()).hexdigest()
        script = "head -c 3000000 /dev/zero"
        given = behind.site.kubectl(CLUSTER, "exec", POD, "--", "sh", "-c", script, environment=environment).expect().out
        assert len(given) == 3_000_000
        behind.spoke.client().delete(f"/api/v1/namespaces/default/pods/{POD}?gracePeriodSeconds=0").expect(200)
        behind.spoke.client().delete("/api/v1/nodes/streaming").expect(200)


def test_an_authority_that_does_not_vouch_for_the_cluster(behind: Behind, tmp_path: Path) -> None:
    """Nothing reaches the API server, whose audit log would have it."""
    site, mark = behind.site, behind.site.name("mark")
    secret = f"{SECRETS}/{CLUSTER}"
    good = site.admin.get(secret).expect(200)["data"]["ca.crt"]
    other = base64_of({"ca.crt": Authority(tmp_path, "other").pair.cert.read_bytes()})
    site.admin.request("PATCH", secret, body={"data": other}, content_type=MERGE_PATCH).expect(200)
    refused = site.gateway.wait_reply(lambda: site.proxy(CLUSTER, "/version"), "the refusal", 502)
    assert refused["details"]["causes"][0]["reason"] == "CertificateMismatch"
    site.wait_status(CLUSTER, healthy=False, reason="CertificateMismatch")
    assert site.proxy(CLUSTER, f"/api/v1/namespaces/{mark}").status == 502
    site.admin.request("PATCH", secret, body={"data": {"ca.crt": good}}, content_type=MERGE_PATCH).expect(200)
    site.wait_status(CLUSTER, healthy=True)
    assert site.proxy(CLUSTER, f"/api/v1/namespaces/{mark}-later").status == 404
    wait_for(lambda: f"{mark}-later" in behind.audit_log.read_text(), "the later request in the audit log")
    assert not re.search(rf"{mark}(?!-later)", behind.audit_log.read_text())


def test_an_agent_that_is_killed_comes_back(behind: Behind) -> None:
    watch = behind.site.through(CLUSTER).watch(CONFIG_MAPS, timeout=20)
    behind.proxy.agent.stop(kill=True)
    status = behind.site.wait_status(CLUSTER, healthy=False, reason="ClusterUnreachable")
    assert "cluster-proxy at 127.0.0.1" in status["healthyReason"]
    assert "refused: No agent available" in status["healthyReason"], "what the proxy says"
    reply = behind.site.proxy(CLUSTER, "/readyz")
    assert (reply.status, reply.json["details"]["causes"][0]["reason"]) == (503, "ClusterUnreachable")
    assert [*watch, watch.ended_by_server][-1], "the watch does not outlive its connection"
    behind.proxy.agent.start()
    wait_for(behind.answers, "the cluster by the agent that is back", servers=[behind.proxy.agent])
    behind.site.wait_status(CLUSTER, healthy=True)


def test_a_server_that_is_killed_comes_back(behind: Behind) -> None:
    behind.proxy.server.stop(kill=True)
    refused = behind.site.gateway.wait_reply(lambda: behind.site.proxy(CLUSTER, "/readyz"), "the refusal", 503)
    assert "connection refused" in refused["details"]["causes"][0]["message"]
    behind.site.wait_status(CLUSTER, healthy=False, reason="ClusterUnreachable")
    behind.proxy.start_server()
    wait_for(behind.answers, "the cluster by the server that is back", servers=[behind.proxy.server, behind.proxy.agent])
