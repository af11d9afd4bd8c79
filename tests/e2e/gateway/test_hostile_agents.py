"""What a cluster's agent writes of its own (addresses in its ManagedCluster, the Secret of its account) leads the gateway nowhere
that the agent could not go by itself, and brings it nothing of anybody else's. The servers that it names record every byte."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GROUP, MANAGED_CLUSTERS, READS, SECRETS, GatewaySite, base64_of, rule
from tests.e2e.gateway.replica import Replica, straight
from tests.support.administrator import wait_for
from tests.support.client import Client, Reply
from tests.support.hub_components import OwnAddons
from tests.support.planes import USERS
from tests.support.processes import complaints
from tests.support.recording_cluster import RecordingCluster

ACCOUNT = "cluster-gateway"
ACCOUNTS = "/apis/authentication.open-cluster-management.io/v1beta1"
IS_ACCOUNTS = "authentication.open-cluster-management.io/is-managed-serviceaccount"
OWN, VICTIMS = "the-hostile-agents-own-token", "the-token-for-the-victim"
PODS = "/api/v1/pods"
SAID = "said"


@dataclass
class Agent:
    """As whom the test writes; the administrator has enabled the addon for the cluster."""

    site: GatewaySite
    name: str

    @property
    def secret(self) -> str:
        return f"/api/v1/namespaces/{self.name}/secrets"

    def begin(self) -> None:
        site = self.site
        site.accept(self.name)
        site.admin.post("/api/v1/namespaces", {"metadata": {"name": self.name}}).expect(201)
        kind = {"apiVersion": "authentication.open-cluster-management.io/v1beta1", "kind": "ManagedServiceAccount"}
        account = {**kind, "metadata": {"name": ACCOUNT}, "spec": {"rotation": {"enabled": True, "validity": "1h0m0s"}}}
        site.admin.post(f"{ACCOUNTS}/namespaces/{self.name}/managedserviceaccounts", account).expect(201)
        metadata = {"name": ACCOUNT, "labels": {IS_ACCOUNTS: "true"}}
        site.admin.post(self.secret, {"metadata": metadata, "data": base64_of({"token": OWN})}).expect(201)
        site.wait_status(self.name, healthy=False)

    def says(self, url: str, ca: bytes = b"") -> str:
        """Where it is; a label by which that this has been heard is known."""
        config = {"url": url, **({"caBundle": base64.b64encode(ca).decode()} if ca else {})}
        mark = self.site.name("said")
        change = {"metadata": {"labels": {SAID: mark}}, "spec": {"managedClusterClientConfigs": [config]}}
        self.site.admin.patch(f"{MANAGED_CLUSTERS}/{self.name}", change).expect(200)
        return mark

    def holds(self, **data: str | bytes) -> None:
        """In the Secret of its account."""
        values = base64_of({key.replace("__", ".").replace("_", "-"): value for key, value in data.items()})
        self.site.admin.patch(f"{self.secret}/{ACCOUNT}", {"data": values}).expect(200)

    def asked(self, user: str = "admin") -> Reply:
        return self.site.proxy(self.name, PODS, user)

    def end(self) -> None:
        self.site.forget(self.name)
        self.site.admin.delete(f"/api/v1/namespaces/{self.name}")


@pytest.fixture(scope="module")
def accounts(site: GatewaySite) -> GatewaySite:
    """The definition of ManagedServiceAccounts, as hubs with addons have it."""
    OwnAddons(site.hub, site.ground.directory / "own-addons").install()
    return site


@pytest.fixture
def agent(accounts: GatewaySite) -> Iterator[Agent]:
    made = Agent(accounts, accounts.name("hostile"))
    made.begin()
    yield made
    made.end()


@pytest.fixture
def victim(site: GatewaySite) -> Iterator[RecordingCluster]:
    """The server of another cluster, to which the administrator has given the gateway a token."""
    with RecordingCluster() as cluster:
        name = site.name("victim")
        site.accept(name)
        site.credential(name, "ServiceAccountToken", {"endpoint": cluster.url, "ca.crt": cluster.ca, "token": VICTIMS})
        site.wait_status(name, healthy=True)
        assert site.proxy(name, PODS).status == 200
        assert bearers(cluster) == {VICTIMS}
        yield cluster
        site.forget(name)


@pytest.fixture
def lair() -> Iterator[RecordingCluster]:
    """A server of the attacker's."""
    with RecordingCluster() as cluster:
        yield cluster


def bearers(cluster: RecordingCluster) -> set[str]:
    """The credentials of all requests that arrived, those after its health too."""
    lines = [line for talk in cluster.every_talk for line in talk.data.split(b"\r\n")]
    found = {line.partition(b" ")[2].decode() for line in lines if line.lower().startswith(b"authorization:")}
    return {one.removeprefix("Bearer ") for one in found}


def nothing_of_others(cluster: RecordingCluster) -> None:
    arrived = b"".join(talk.data for talk in cluster.every_talk)
    for secret in (VICTIMS, *(user.token for user in USERS.values())):
        assert secret.encode() not in arrived
    assert bearers(cluster) <= {OWN}


def test_another_clusters_address_gets_the_agents_own_token_and_no_other(agent: Agent, victim: RecordingCluster) -> None:
    before = len(victim.every_talk)
    agent.says(victim.url, ca=victim.ca)
    agent.site.wait_status(agent.name, healthy=True)
    assert agent.asked().status == 200
    fresh = [talk.data for talk in victim.every_talk[before:]]
    own = [data for data in fresh if f"GET {PODS} ".encode() in data]
    assert len(own) == 1
    assert f"Authorization: Bearer {OWN}\r\n".encode() in own[0]
    assert VICTIMS.encode() not in own[0]


def test_who_may_use_the_hostile_cluster_has_no_way_to_the_one_it_names(agent: Agent, victim: RecordingCluster) -> None:
    """Nor does its agent: rights are those of the name that was asked for, whatever server is behind it."""
    site = agent.site
    agent.says(victim.url, ca=victim.ca)
    site.grant("mallory", rule(["clustergateways/proxy"], ["get"], [agent.name], GROUP))
    site.grant("mallory", rule(["pods"], [f"{agent.name}/{verb}" for verb in READS]))
    site.wait_status(agent.name, healthy=True)
    before = len(victim.talks)
    wait_for(lambda: agent.asked("mallory").status == 200, "mallory's rights on the hostile cluster")
    fresh = victim.talks[before:]
    assert fresh
    assert all(OWN.encode() in talk.data and VICTIMS.encode() not in talk.data for talk in fresh)
    named = next(one["metadata"]["name"] for one in site.admin.get(GATEWAYS).json["items"] if "victim" in one["metadata"]["name"])
    count = len(victim.talks)
    assert site.proxy(named, PODS, "mallory").status == 403
    assert len(victim.talks) == count


def test_the_hubs_own_address_is_asked_with_the_agents_own_token(agent: Agent) -> None:
    hub = agent.site.hub
    agent.says(hub.url, ca=hub.ca.read_bytes())
    agent.site.wait_status(agent.name, healthy=False, reason="CredentialRefused")
    reply = agent.asked()
    assert (reply.status, reply.json["details"]["causes"][0]["reason"]) == (503, "CredentialRefused")
    assert OWN.encode() not in reply.body


def test_no_address_leads_through_the_gateway_to_another_cluster(agent: Agent) -> None:
    """Where the gateway would present itself, and be let through with its own rights."""
    hub = agent.site.hub
    agent.says(f"{hub.url}{GATEWAYS}/foo/proxy", ca=hub.ca.read_bytes())
    agent.site.wait_status(agent.name, healthy=False, reason="EndpointUnusable")
    assert agent.asked().status == 503


def test_what_an_accounts_secret_says_beside_token_and_authority_counts_for_nothing(
    agent: Agent, victim: RecordingCluster, lair: RecordingCluster
) -> None:
    agent.says(victim.url, ca=victim.ca)
    agent.holds(endpoint=lair.url, proxy_url=lair.url.replace("https", "http"), insecure="true", tls_server_name="localhost")
    agent.site.wait_status(agent.name, healthy=True)
    assert agent.asked().status == 200
    assert lair.every_talk == []

    # Another authority than that of the server that it named: trust in addition, for itself alone.
    agent.holds(ca__crt=lair.ca)
    agent.says(lair.url)
    wait_for(lambda: agent.asked().status == 200 and lair.talks, "requests at the address that it named")
    nothing_of_others(lair)
    agent.says(victim.url)
    wait_for(lambda: agent.asked().status == 502, "a server that this authority does not vouch for")


def test_a_token_of_another_in_the_accounts_secret_opens_nothing_new(agent: Agent, victim: RecordingCluster) -> None:
    """Whoever has it can use it; the gateway adds nothing to it, and still asks for rights on the agent's own name."""
    site = agent.site
    agent.says(site.spokes["foo"].url, ca=site.spokes["foo"].ca.read_bytes())
    agent.holds(token=site.tokens["bar"])
    site.wait_status(agent.name, healthy=False, reason="CredentialRefused")
    assert agent.asked().status == 503
    agent.holds(token=site.tokens["foo"])
    wait_for(lambda: agent.asked().status == 200, "its requests")
    site.may_use("carol", "foo")
    site.grant("carol", rule(["pods"], ["foo/list"]))
    wait_for(lambda: site.proxy("foo", PODS, "carol").status == 200, "carol's rights on foo")
    assert agent.asked("carol").status == 403, "they are none on this one"


def test_an_administrators_token_does_not_go_where_the_agent_says(agent: Agent, lair: RecordingCluster) -> None:
    """Unless what is there proves itself to authorities that the administrator named."""
    site = agent.site
    agent.says(lair.url, ca=lair.ca)
    site.wait_status(agent.name, healthy=True)
    site.credential(agent.name, "ServiceAccountToken", {"token": VICTIMS})
    site.wait_status(agent.name, healthy=False, reason="EndpointMissing")
    assert agent.asked().status == 503
    authority = base64_of({"ca.crt": site.spokes["foo"].ca.read_bytes()})
    site.admin.patch(f"{SECRETS}/{agent.name}", {"data": authority}).expect(200)
    site.wait_status(agent.name, healthy=False, reason="CertificateMismatch")
    assert agent.asked().status == 502
    nothing_of_others(lair)


def heard(gateway: Client, agent: Agent, mark: str) -> Callable[[], bool]:
    """Whether the gateway goes by what the agent has said."""
    return lambda: gateway.get(f"{GATEWAYS}/{agent.name}").expect(200)["metadata"]["labels"].get(SAID) == mark


def test_addresses_of_the_gateways_own_machine_and_link_are_not_asked_at_all(
    agent: Agent, lair: RecordingCluster, site: GatewaySite
) -> None:
    """By a gateway as it is installed, which is not told that clusters are on its own machine."""
    usual = Replica(site.gateway, site.ground.directory / "usual-gateway", loopback=False)
    usual.start()
    try:
        client = straight(usual)
        port = urlsplit(lair.url).port
        named = [
            lair.url,
            f"http://127.0.0.1:{port}",
            f"https://localhost:{port}",
            f"https://[::ffff:127.0.0.1]:{port}",
            "https://169.254.169.254/latest/meta-data",
            "http://169.254.169.254",
            f"https://127.0.0.1:{usual.port}",
            site.hub.url,
        ]
        for url in named:
            mark = agent.says(url, ca=lair.ca)
            wait_for(heard(client, agent, mark), f"{url} to be heard", servers=usual.servers)
            reply = client.get(f"{GATEWAYS}/{agent.name}/proxy{PODS}")
            assert (reply.status, reply.json["details"]["causes"][0]["reason"]) == (503, "EndpointUnusable"), url
        assert lair.talks == []
    finally:
        usual.stop()
    assert usual.process is not None
    assert complaints(usual.process.log) == []
