"""A cluster that reaches its hub through a proxy only: it joins, lives and leaves; each test goes on where the last one ended.

The hub is told by an address where nobody listens; the proxy alone knows the way. So whatever reaches the hub here has gone through
the proxy: `clusteradm join`, the operator's check of the connection, the agent before and after it got its certificate, `unjoin`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import yaml

from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import MANAGED, World, open_world
from tests.support.administrator import AGENT_NAMESPACE, certificate_of, read_secret
from tests.support.pki import Authority
from tests.support.processes import free_ports
from tests.support.proxy import Proxy

KLUSTERLET = "/apis/operator.open-cluster-management.io/v1/klusterlets/klusterlet"


@dataclass
class Site:
    """`server` is the hub's address that the proxy alone can reach."""

    world: World
    proxy: Proxy
    authority: str
    server: str

    def join(self, *words: str) -> list[str]:
        access = {**self.world.told_access(), "hub-apiserver": self.server, "cluster-name": "shielded"}
        return ["join", *(word for name, value in access.items() for word in (f"--{name}", value)), *words]

    @property
    def address(self) -> str:
        return urlsplit(self.server).netloc


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("proxy")
    authority = Authority(directory, "proxies")
    pair = authority.issue("proxy", hosts=("127.0.0.1",))
    (nobody,) = free_ports(1)
    with open_world(directory) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        hub = urlsplit(world.hub.cluster.url)
        server = f"https://127.0.0.1:{nobody}{hub.path}"
        with Proxy({f"127.0.0.1:{nobody}": hub.netloc}, pair) as proxy:
            yield Site(world, proxy, str(authority.pair.cert), server)


def test_without_the_proxy_there_is_no_way(site: Site) -> None:
    assert site.address in site.world.fails(*site.join(), context=MANAGED)
    assert site.proxy.asked == []


def test_a_proxy_that_cannot_be_trusted_gets_no_token(site: Site) -> None:
    before = site.world.objects(MANAGED)
    assert "certificate" in site.world.fails(*site.join("--proxy-url", site.proxy.url), context=MANAGED)
    assert site.world.objects(MANAGED) == before


def test_a_proxy_that_is_away_is_explained(site: Site) -> None:
    (nobody,) = free_ports(1)
    flags = ["--proxy-url", f"https://127.0.0.1:{nobody}", "--proxy-ca-file", site.authority]
    assert f"127.0.0.1:{nobody}" in site.world.fails(*site.join(*flags), context=MANAGED)


@shows("join", "--proxy-url", "--proxy-ca-file", "--klusterlet-annotation", "--client-cert-expiration-seconds")
def test_the_agent_gets_in_and_reports_through_the_proxy(site: Site) -> None:
    world, hub = site.world, site.world.hub
    flags = ["--proxy-url", site.proxy.url, "--proxy-ca-file", site.authority]
    world.ok(*site.join(*flags, "--klusterlet-annotation", "zone=dmz", "--client-cert-expiration-seconds", "7200"), context=MANAGED)
    world.operator("klusterlet", MANAGED)
    world.registration_agent()
    assert "has joined the Hub successfully" in world.ok("accept", "--clusters", "shielded", "--wait")
    assert (hub.find("shielded") or {})["metadata"]["annotations"]["agent.open-cluster-management.io/zone"] == "dmz"
    (request,) = (one for one in hub.requests("shielded") if certificate_of(one))
    assert request["spec"]["expirationSeconds"] == 7200
    kept = yaml.safe_load(read_secret(world.managed.client(), AGENT_NAMESPACE, "hub-kubeconfig-secret")["kubeconfig"])
    way = kept["clusters"][0]["cluster"]
    assert (way["server"], way["proxy-url"]) == (site.server, site.proxy.url)
    assert set(site.proxy.asked) == {site.address}


def test_the_operator_sees_the_connection_through_the_proxy(site: Site) -> None:
    def connected() -> bool:
        found = site.world.managed.client().get(KLUSTERLET).expect(200)
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(one["type"] == "HubConnectionDegraded" and one["status"] == "False" for one in conditions)

    site.world.hub.wait(connected, "the Klusterlet says that the hub is reached")


def test_it_tells_the_hub_through_the_proxy_that_it_leaves(site: Site) -> None:
    before = len(site.proxy.asked)
    said = site.world.ok("unjoin", "--cluster-name", "shielded", "--timeout", "60", context=MANAGED)
    assert "The hub was told that shielded leaves" in said
    assert len(site.proxy.asked) > before
    site.world.hub.wait_condition("shielded", "HubAcceptedManagedCluster", "False", "HubClusterAdminDenied")
