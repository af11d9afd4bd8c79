"""What the hub approves by itself on a real (embedded) API server, and what it leaves to people."""

import asyncio
import base64
import contextlib
import random
from typing import Any

import pytest

from muster.api.agents import AWS_ARN_ANNOTATION as ARN_ANNOTATION
from muster.api.cluster.v1 import ManagedCluster
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.kube import certificates
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.metrics import Metrics
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.approval import Approver
from muster.registration.drivers.certificates.requests import new_key, request_object
from muster.registration.drivers.interfaces import DriverConfigError, HubContext, Vote
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import ALL_CLUSTERS_GROUP, CLUSTER_LABEL, DRIVER_ANNOTATION, AgentIdentity, cluster_group
from muster.runtime.cache.informer import Informers
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, EVENTS, SIGNING_REQUESTS
from muster.runtime.client.errors import AlreadyExists, Forbidden, NotFound
from muster.runtime.controller.events import EventRecorder
from tests.unit.registration.drivers.conftest import BOOTSTRAP, MASTERS, client_of, hub_driver, until

AGENT = AgentIdentity("cluster1", "abcde")
TRUSTED = {"auto-approved-csr-users": (f"somebody-else,{BOOTSTRAP}",)}
KIND = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
Document = dict[str, Any]


@pytest.fixture
def bootstrap(server: ApiServer) -> InProcessClient:
    return client_of(server, BOOTSTRAP)


def agent_client(server: ApiServer, identity: AgentIdentity = AGENT, extra: tuple[str, ...] = MASTERS) -> InProcessClient:
    """The agent by its certificate; `extra` groups let it ask at all."""
    return client_of(server, identity.common_name, (cluster_group(identity.cluster), ALL_CLUSTERS_GROUP, *extra))


async def ask(
    client: InProcessClient,
    name: str,
    identity: AgentIdentity = AGENT,
    *,
    introduced: bool = True,
    key: bytes | None = None,
    **changes: Any,
) -> Document:
    """As agents do it: the cluster first."""
    if introduced:
        with contextlib.suppress(AlreadyExists, Forbidden):
            await client.create(MANAGED_CLUSTERS, {**KIND, "metadata": {"name": identity.cluster}})
    csr = request_object(name, agent_profile(identity), key or new_key())
    csr["spec"] |= changes.get("spec", {})
    csr["metadata"]["labels"] |= changes.get("labels", {})
    return await client.create(SIGNING_REQUESTS, csr)


async def verdict(client: InProcessClient, name: str) -> str:
    csr = await client.get(SIGNING_REQUESTS, name)
    return ",".join(condition["type"] for condition in (csr.get("status") or {}).get("conditions") or ())


async def approved(client: InProcessClient, name: str) -> bool:
    return await verdict(client, name) == "Approved"


async def judged_otherwise(admin: InProcessClient, trusted: InProcessClient, *names: str) -> None:
    """A good request made after them is approved; those have been looked at by then, and are still pending."""
    await ask(trusted, "marker-00000", AgentIdentity("marker", "abcde"))
    await until(lambda: approved(admin, "marker-00000"))
    for name in names:
        assert await verdict(admin, name) == "", name


async def managed_cluster(admin: InProcessClient, *conditions: tuple[str, str], name: str = "cluster1") -> None:
    with contextlib.suppress(AlreadyExists):
        await admin.create(MANAGED_CLUSTERS, {**KIND, "metadata": {"name": name}})
    listed = [
        {"type": type_, "status": status, "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_, status in conditions
    ]
    await admin.patch(MANAGED_CLUSTERS, name, {"status": {"conditions": listed}}, subresource="status")


JOINED = ("ManagedClusterJoined", "True")
ALIVE = ("ManagedClusterConditionAvailable", "True")
LAPSED = ("ManagedClusterConditionAvailable", "Unknown")


async def may_renew(admin: InProcessClient) -> None:
    rule = {"apiGroups": ["register.open-cluster-management.io"], "resources": ["managedclusters/clientcertificates"]}
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": "c1"}, "rules": [{**rule, "verbs": ["renew"]}]})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": cluster_group("cluster1")}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "c1"}
    await admin.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "c1"}, "roleRef": reference, "subjects": [subject]})


async def still_approver(admin: InProcessClient, clock: Clock) -> Approver:
    """It knows what was there when it began, and hears of nothing else."""
    informers = Informers(admin)
    recorder = EventRecorder(admin, "hub", "test")
    context = HubContext(
        admin, informers, recorder, Metrics(), clock, random.random, reconsider=lambda cluster: None, auto_approval=True
    )
    approver = Approver(context, frozenset({BOOTSTRAP}))
    following = asyncio.create_task(informers.run())
    await informers.synced()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return approver


class TestFirstRequests:
    async def test_a_trusted_identitys_request_is_approved_and_says_by_whom(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        key = new_key()
        await ask(bootstrap, "cluster1-aaaaa", key=key)
        async with hub_driver(admin, TRUSTED):
            await until(lambda: approved(admin, "cluster1-aaaaa"))
            await ask(bootstrap, "cluster1-bbbbb", key=key)
            await until(lambda: approved(admin, "cluster1-bbbbb"))
        [condition] = (await admin.get(SIGNING_REQUESTS, "cluster1-bbbbb"))["status"]["conditions"]
        assert condition["reason"] == "AutoApprovedByHubCSRApprovingController"

    async def test_a_request_that_comes_before_its_cluster_waits_for_it(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        await ask(bootstrap, "cluster1-early", introduced=False)
        async with hub_driver(admin, TRUSTED) as hub:
            await judged_otherwise(admin, bootstrap, "cluster1-early")
            assert "cluster1" in hub.reconsidered, "it speaks for its cluster all the same"
            await managed_cluster(admin)
            await until(lambda: approved(admin, "cluster1-early"))

    async def test_a_request_is_approved_once_even_while_the_cache_does_not_show_it(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        await ask(bootstrap, "cluster1-aaaaa")
        approver = await still_approver(admin, SYSTEM)
        for _ in range(2):
            await approver.reconcile("cluster1-aaaaa")
        assert await approved(admin, "cluster1-aaaaa")

    async def test_nobody_is_trusted_without_automatic_approval(
        self, admin: InProcessClient, server: ApiServer, bootstrap: InProcessClient
    ) -> None:
        await ask(bootstrap, "cluster1-aaaaa")
        await ask(agent_client(server), "cluster1-renew")
        async with hub_driver(admin, TRUSTED, auto_approval=False) as hub:
            await until(lambda: approved(admin, "cluster1-renew"))
            assert await verdict(admin, "cluster1-aaaaa") == ""
            assert hub.reconsidered == []

    async def test_who_is_not_on_the_list_waits_for_an_administrator(
        self, admin: InProcessClient, server: ApiServer, bootstrap: InProcessClient
    ) -> None:
        await ask(client_of(server, f"{BOOTSTRAP}2"), "cluster1-aaaaa")
        await ask(admin, "cluster1-bbbbb")
        async with hub_driver(admin, TRUSTED) as hub:
            await judged_otherwise(admin, bootstrap, "cluster1-aaaaa", "cluster1-bbbbb")
            assert set(hub.reconsidered) == {"marker"}

    async def test_a_trusted_identity_gets_nothing_but_an_agents_certificate(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        key = certificates.generate_key()
        nodes = certificates.signing_request(key, certificates.subject(AGENT.common_name, ["system:nodes"]))
        named = certificates.signing_request(
            key, certificates.subject(AGENT.common_name, sorted(AGENT.organizations)), ["kubernetes"]
        )
        await ask(bootstrap, "a-nodes", spec={"request": base64.b64encode(nodes).decode()})
        await ask(bootstrap, "b-named", spec={"request": base64.b64encode(named).decode()})
        await ask(bootstrap, "c-labelled", labels={CLUSTER_LABEL: "cluster1xyz"})
        await ask(bootstrap, "d-server", spec={"usages": ["digital signature", "key encipherment", "client auth", "server auth"]})
        await ask(bootstrap, "e-signer", spec={"signerName": "example.com/custom"})
        async with hub_driver(admin, TRUSTED):
            await judged_otherwise(admin, bootstrap, "a-nodes", "b-named", "c-labelled", "d-server", "e-signer")

    async def test_what_was_denied_stays_denied(self, admin: InProcessClient, bootstrap: InProcessClient) -> None:
        csr = await ask(bootstrap, "cluster1-aaaaa")
        csr["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": ""}]}
        await admin.update(SIGNING_REQUESTS, csr, subresource="approval")
        async with hub_driver(admin, TRUSTED) as hub:
            await ask(bootstrap, "marker-00000", AgentIdentity("marker", "abcde"))
            await until(lambda: approved(admin, "marker-00000"))
            assert await verdict(admin, "cluster1-aaaaa") == "Denied"
            assert set(hub.reconsidered) == {"marker"}


class TestNamesInUse:
    async def test_the_name_of_a_living_cluster_is_not_given_away_until_its_lease_lapses(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        await managed_cluster(admin, JOINED, ALIVE)
        await ask(bootstrap, "cluster1-thief")
        async with hub_driver(admin, TRUSTED):
            await judged_otherwise(admin, bootstrap, "cluster1-thief")
            [event] = await until(lambda: events(admin, "NameInUse"))
            assert event["type"] == "Warning"
            assert event["regarding"]["name"] == "cluster1"
            assert event["related"]["name"] == "cluster1-thief"
            await managed_cluster(admin, JOINED, LAPSED)
            await until(lambda: approved(admin, "cluster1-thief"))

    async def test_it_is_given_away_when_another_takes_the_clusters_place(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        await managed_cluster(admin, JOINED, ALIVE)
        await ask(bootstrap, "cluster1-next0")
        async with hub_driver(admin, TRUSTED):
            await judged_otherwise(admin, bootstrap, "cluster1-next0")
            await admin.delete(MANAGED_CLUSTERS, "cluster1")
            await managed_cluster(admin)
            await until(lambda: approved(admin, "cluster1-next0"))

    async def test_a_cluster_that_has_not_joined_yet_is_what_the_request_is_for(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        await managed_cluster(admin, ("HubAcceptedManagedCluster", "True"))
        await ask(bootstrap, "cluster1-aaaaa")
        async with hub_driver(admin, TRUSTED):
            await until(lambda: approved(admin, "cluster1-aaaaa"))

    async def test_a_living_cluster_renews_all_the_same(self, admin: InProcessClient, server: ApiServer) -> None:
        await managed_cluster(admin, JOINED, ALIVE)
        await ask(agent_client(server), "cluster1-renew")
        async with hub_driver(admin, TRUSTED):
            await until(lambda: approved(admin, "cluster1-renew"))


class TestTwins:
    """Two keys ask for one name."""

    async def test_neither_of_two_is_approved_until_the_other_is_refused(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        await ask(bootstrap, "cluster1-honest")
        twin = await ask(bootstrap, "cluster1-twin00")
        async with hub_driver(admin, TRUSTED) as hub:
            await judged_otherwise(admin, bootstrap, "cluster1-honest", "cluster1-twin00")
            assert hub.driver.vote(cluster()) is Vote.ABSTAIN
            warned = await until(lambda: events(admin, "CompetingRequests"))
            assert {event["regarding"]["name"] for event in warned} == {"cluster1"}
            assert all("sha256:" in event["note"] for event in warned)
            twin["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": ""}]}
            await admin.update(SIGNING_REQUESTS, twin, subresource="approval")
            await until(lambda: approved(admin, "cluster1-honest"))
            await until_vote(admin, hub.driver, Vote.ALLOW)

    async def test_one_is_approved_when_the_other_is_gone(self, admin: InProcessClient, bootstrap: InProcessClient) -> None:
        await ask(bootstrap, "cluster1-honest")
        await ask(bootstrap, "cluster1-twin00")
        async with hub_driver(admin, TRUSTED):
            await judged_otherwise(admin, bootstrap, "cluster1-honest", "cluster1-twin00")
            await admin.delete(SIGNING_REQUESTS, "cluster1-twin00")
            await until(lambda: approved(admin, "cluster1-honest"))

    async def test_one_that_comes_after_the_first_was_approved_is_not(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        async with hub_driver(admin, TRUSTED):
            await ask(bootstrap, "cluster1-honest")
            await until(lambda: approved(admin, "cluster1-honest"))
            await ask(bootstrap, "cluster1-twin00")
            await judged_otherwise(admin, bootstrap, "cluster1-twin00")

    async def test_one_that_comes_after_an_administrator_let_a_stranger_in_is_not(
        self, admin: InProcessClient, server: ApiServer, bootstrap: InProcessClient
    ) -> None:
        csr = await ask(client_of(server, "stranger"), "cluster1-chosen")
        csr["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Mine", "message": ""}]}
        await admin.update(SIGNING_REQUESTS, csr, subresource="approval")
        await ask(bootstrap, "cluster1-twin00")
        async with hub_driver(admin, TRUSTED):
            await judged_otherwise(admin, bootstrap, "cluster1-twin00")

    async def test_a_request_that_nobody_would_approve_here_keeps_nobody_out(
        self, admin: InProcessClient, server: ApiServer, bootstrap: InProcessClient
    ) -> None:
        await ask(client_of(server, "stranger"), "cluster1-twin00")
        await ask(bootstrap, "cluster1-honest")
        async with hub_driver(admin, TRUSTED):
            await until(lambda: approved(admin, "cluster1-honest"))
            assert await verdict(admin, "cluster1-twin00") == ""

    async def test_an_agent_that_asks_again_with_its_key_is_no_twin_of_itself(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        key = new_key()
        names = [f"cluster1-again{number}" for number in range(3)]
        for name in names:
            await ask(bootstrap, name, key=key)
        async with hub_driver(admin, TRUSTED):
            for name in names:
                await until(lambda name=name: approved(admin, name))  # type: ignore[misc]

    async def test_what_was_approved_for_an_earlier_cluster_of_the_name_keeps_nobody_out(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        csr = await ask(bootstrap, "cluster1-former")
        past = {"type": "Approved", "status": "True", "reason": "Mine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        csr["status"] = {"conditions": [past]}
        await admin.update(SIGNING_REQUESTS, csr, subresource="approval")
        await ask(bootstrap, "cluster1-latter")
        async with hub_driver(admin, TRUSTED):
            await until(lambda: approved(admin, "cluster1-latter"))


async def events(admin: InProcessClient, reason: str) -> list[Document]:
    return [event for event in (await admin.list(EVENTS, "default")).items if event["reason"] == reason]


class TestRenewals:
    async def test_an_accepted_agent_renews_by_itself_and_only_for_itself(
        self, admin: InProcessClient, server: ApiServer, bootstrap: InProcessClient
    ) -> None:
        await may_renew(admin)
        await may_ask(admin)
        agent = agent_client(server, extra=("system:authenticated",))
        await ask(agent, "cluster1-itself")
        await ask(agent, "cluster1-other0", AgentIdentity("cluster1", "other"))
        await ask(agent, "cluster2-theirs", AgentIdentity("cluster2", "abcde"))
        async with hub_driver(admin, TRUSTED):
            await until(lambda: approved(admin, "cluster1-itself"))
            await judged_otherwise(admin, bootstrap, "cluster1-other0", "cluster2-theirs")

    async def test_an_agent_that_may_not_renew_waits_until_its_cluster_is_accepted_again(
        self, admin: InProcessClient, server: ApiServer, bootstrap: InProcessClient
    ) -> None:
        await may_ask(admin)
        await managed_cluster(admin, JOINED, ("HubAcceptedManagedCluster", "False"))
        await ask(agent_client(server, extra=("system:authenticated",)), "cluster1-again0")
        async with hub_driver(admin, TRUSTED):
            await judged_otherwise(admin, bootstrap, "cluster1-again0")
            await may_renew(admin)
            await managed_cluster(admin, JOINED, ("HubAcceptedManagedCluster", "True"))
            await until(lambda: approved(admin, "cluster1-again0"))

    async def test_renewals_need_no_automatic_approval(self, admin: InProcessClient, server: ApiServer) -> None:
        await ask(agent_client(server), "cluster1-renew")
        async with hub_driver(admin, auto_approval=False):
            await until(lambda: approved(admin, "cluster1-renew"))

    async def test_two_hubs_at_once_approve_once(self, admin: InProcessClient, server: ApiServer) -> None:
        async with hub_driver(admin), hub_driver(admin):
            for number in range(10):
                await ask(agent_client(server), f"cluster1-{number}")
            for number in range(10):
                await until(lambda name=f"cluster1-{number}": approved(admin, name))  # type: ignore[misc]

    async def test_a_request_that_goes_while_it_is_judged_is_no_failure(self, admin: InProcessClient, server: ApiServer) -> None:
        agent = agent_client(server)
        async with hub_driver(admin):
            for number in range(20):
                await ask(agent, f"cluster1-gone{number}")
                await admin.delete(SIGNING_REQUESTS, f"cluster1-gone{number}")
            await ask(agent, "cluster1-stays")
            await until(lambda: approved(admin, "cluster1-stays"))
        with pytest.raises(NotFound):
            await admin.get(SIGNING_REQUESTS, "cluster1-gone0")


async def may_ask(admin: InProcessClient) -> None:
    rules = [{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]}]
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": "asking"}, "rules": rules})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": ALL_CLUSTERS_GROUP}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "asking"}
    await admin.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "asking"}, "roleRef": reference, "subjects": [subject]})


def cluster(annotations: dict[str, str] | None = None, name: str = "cluster1") -> ManagedCluster:
    return ManagedCluster.decode({"metadata": {"name": name, "annotations": annotations or {}}})


class TestVotes:
    async def test_a_trusted_identitys_request_speaks_for_its_cluster_and_no_other(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        async with hub_driver(admin, TRUSTED) as hub:
            assert hub.driver.vote(cluster()) is Vote.ABSTAIN
            await ask(bootstrap, "cluster1-aaaaa")
            await until_vote(admin, hub.driver, Vote.ALLOW)
            assert hub.driver.vote(cluster(name="cluster2")) is Vote.ABSTAIN
            assert hub.driver.vote(cluster(name="cluster10")) is Vote.ABSTAIN
            assert hub.driver.vote(cluster({DRIVER_ANNOTATION: "other"})) is Vote.ABSTAIN

    async def test_a_foreign_or_denied_request_speaks_for_nobody(
        self, admin: InProcessClient, server: ApiServer, bootstrap: InProcessClient
    ) -> None:
        await ask(client_of(server, "stranger"), "cluster1-aaaaa")
        await ask(bootstrap, "cluster1-bbbbb", AgentIdentity("cluster2", "abcde"), labels={CLUSTER_LABEL: "cluster1"})
        csr = await ask(bootstrap, "cluster1-ccccc")
        csr["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": ""}]}
        await admin.update(SIGNING_REQUESTS, csr, subresource="approval")
        async with hub_driver(admin, TRUSTED) as hub:
            await judged_otherwise(admin, bootstrap, "cluster1-aaaaa", "cluster1-bbbbb")
            assert hub.driver.vote(cluster()) is Vote.ABSTAIN

    async def test_a_request_that_is_labelled_otherwise_later_speaks_for_nobody(
        self, admin: InProcessClient, bootstrap: InProcessClient
    ) -> None:
        async with hub_driver(admin, TRUSTED) as hub:
            await ask(bootstrap, "cluster1-aaaaa")
            await until_vote(admin, hub.driver, Vote.ALLOW)
            await admin.patch(SIGNING_REQUESTS, "cluster1-aaaaa", {"metadata": {"labels": {CLUSTER_LABEL: "cluster2"}}})
            await until_vote(admin, hub.driver, Vote.ABSTAIN)
            assert hub.driver.vote(cluster(name="cluster2")) is Vote.ABSTAIN

    async def test_clusters_without_a_mark_are_its_own_and_nothing_is_to_be_granted(self, admin: InProcessClient) -> None:
        async with hub_driver(admin) as hub:
            assert hub.driver.owns(cluster())
            assert hub.driver.owns(cluster({"agent.open-cluster-management.io/region": "eu", DRIVER_ANNOTATION: "csr"}))
            assert not hub.driver.owns(cluster({ARN_ANNOTATION: ""}))
            assert not hub.driver.owns(cluster({DRIVER_ANNOTATION: "grpc"}))
            assert (await hub.driver.grant(cluster())).ok
            assert (await hub.driver.revoke(cluster())).ok

    async def test_options_that_do_not_exist_are_refused_by_name(self, admin: InProcessClient) -> None:
        with pytest.raises(DriverConfigError, match="--auto-approved-users: there is no such option"):
            async with hub_driver(admin, {"auto-approved-users": ("x",)}):
                raise AssertionError("the driver took an unknown option")


async def until_vote(admin: InProcessClient, driver: Any, wanted: Vote) -> None:
    async def voted() -> bool:
        return driver.vote(ManagedCluster.decode(await admin.get(MANAGED_CLUSTERS, "cluster1"))) is wanted

    await until(voted)
