"""Callers who come straight to the gateway with a certificate of the hub's, so that the hub need not be asked who they are: whom
they are taken for (C4), and what becomes of their requests while the hub cannot be asked what they may (B8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway.conftest import GATEWAYS, READS, GatewaySite, rule
from tests.e2e.gateway.replica import Replica
from tests.e2e.gateway.test_failures import causes
from tests.support.administrator import wait_for
from tests.support.client import Client, Reply
from tests.support.client_certificates import client_certificate
from tests.support.link import Link
from tests.support.processes import complaints
from tests.support.recording_cluster import RecordingCluster

PODS = "/api/v1/pods"
CLAIMED = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}


class Caller:
    """Of one cluster, by a gateway whose way to the hub can be cut."""

    def __init__(self, site: GatewaySite, directory: Path, cluster: str) -> None:
        self.site, self.cluster = site, cluster
        self.name = site.name("certified-caller-")
        self.link = Link(site.hub.url)
        self.gateway = Replica(site.gateway, directory / "gateway", hub_url=self.link.url(site.hub.url))
        self.gateway.start()
        pair = directory / "caller.crt", directory / "caller.key"
        for path, content in zip(pair, client_certificate(site.hub, self.name), strict=True):
            path.write_bytes(content)
        self.client = Client(f"https://127.0.0.1:{self.gateway.port}", certificate=pair, timeout=60)
        site.may_use(self.name, cluster)
        site.grant(self.name, rule(["pods", "configmaps", "services"], [f"{cluster}/{verb}" for verb in READS]))

    def ask(self, path: str = PODS, **headers: str) -> Reply:
        return self.client.get(f"{GATEWAYS}/{self.cluster}/proxy{path}", headers=headers)


@pytest.fixture(scope="module")
def cluster(site: GatewaySite) -> Iterator[RecordingCluster]:
    with RecordingCluster() as made:
        yield made


@pytest.fixture(scope="module")
def caller(site: GatewaySite, cluster: RecordingCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    name = site.name("asked")
    site.accept(name)
    site.credential(name, "ServiceAccountToken", {"endpoint": cluster.url, "ca.crt": cluster.ca, "token": "token"})
    made = Caller(site, Path(tmp_path_factory.mktemp("certified")), name)
    wait_for(lambda: made.ask().status == 200, "the caller's rights", servers=made.gateway.servers)
    yield made
    made.link.mend()
    made.gateway.stop()
    made.link.close()
    site.forget(name)
    assert made.gateway.process is not None
    assert complaints(made.gateway.process.log) == []


def test_a_certificate_of_the_hub_is_its_holder_whoever_they_claim_to_be(caller: Caller, cluster: RecordingCluster) -> None:
    """C4."""
    assert caller.ask(**CLAIMED).status == 200
    count = len(cluster.talks)
    refused = caller.ask("/api/v1/secrets", **CLAIMED)
    assert refused.status == 403
    assert caller.name in refused.json["message"]
    assert b"admin" not in refused.body
    assert len(cluster.talks) == count


@pytest.mark.parametrize("outage", ["cut", "silence"])
def test_while_the_hub_cannot_be_asked_nothing_is_forwarded(caller: Caller, cluster: RecordingCluster, outage: str) -> None:
    """B8: whether it refuses to answer, or does not."""
    assert caller.ask().status == 200
    count = len(cluster.talks)
    path = "/api/v1/configmaps" if outage == "cut" else "/api/v1/services"
    getattr(caller.link, outage)()
    reply = caller.ask(path)
    assert reply.status in (503, 504)
    assert causes(reply) == ["AccessReviewFailed"]
    assert len(cluster.talks) == count
    caller.link.mend()
    wait_for(lambda: caller.ask(path).status == 200, "the hub's answer")
