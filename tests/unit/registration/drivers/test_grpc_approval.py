"""What the hub approves by itself of what the gRPC server asks for, and whose word counts for who asks."""

from pathlib import Path

import pytest

from muster.api.agents import CSR_USER, GRPC_SIGNER
from muster.api.cluster.v1 import ManagedCluster
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.registration.drivers.grpc.requests import UNKNOWN, requester_of
from muster.registration.drivers.interfaces import DriverConfigError, Vote
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_LABEL, DRIVER_ANNOTATION, AgentIdentity
from muster.runtime.client.builtin import EVENTS, SIGNING_REQUESTS
from tests.unit.registration.drivers import test_csr_approval as csr
from tests.unit.registration.drivers.conftest import BOOTSTRAP, RunningHub, client_of, hub_driver, until
from tests.unit.registration.drivers.grpc_hub import AGENT, SERVER, AuthorityFiles, approve, ask, grpc_server, issued, verdict


@pytest.fixture
def authority(tmp_path: Path) -> AuthorityFiles:
    return AuthorityFiles(tmp_path)


@pytest.fixture
def behalf(server: ApiServer) -> InProcessClient:
    """The hub's gRPC server."""
    return grpc_server(server)


async def approved(client: InProcessClient, name: str) -> bool:
    return await verdict(client, name) == "Approved"


async def judged_otherwise(admin: InProcessClient, behalf: InProcessClient, *names: str) -> None:
    """A good request made after them is approved; those have been looked at by then, and are still pending."""
    await ask(behalf, "grpc-marker-00000", AgentIdentity("grpc-marker", "abcde"))
    await until(lambda: approved(admin, "grpc-marker-00000"))
    for name in names:
        assert await verdict(admin, name) == "", name


class TestFirstRequests:
    async def test_one_for_an_identity_on_the_list_is_approved(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-aaaaa")
        async with hub_driver(admin, authority.options(f"somebody-else,{BOOTSTRAP}"), driver="grpc") as hub:
            await until(lambda: approved(admin, "cluster1-aaaaa"))
            assert "cluster1" in hub.reconsidered

    async def test_one_for_anybody_else_waits_for_an_administrator(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-aaaaa", user=f"{BOOTSTRAP}2")
        await ask(behalf, "cluster1-bbbbb", user=SERVER)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await judged_otherwise(admin, behalf, "cluster1-aaaaa", "cluster1-bbbbb")

    async def test_nobody_is_trusted_without_automatic_approval(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-aaaaa")
        await csr.may_renew(admin)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc", auto_approval=False):
            await ask(behalf, "cluster1-renew", user=AGENT.common_name)
            await until(lambda: approved(admin, "cluster1-renew"))
            assert await verdict(admin, "cluster1-aaaaa") == ""

    async def test_keys_that_compete_for_a_name_are_left_to_an_administrator(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-aaaaa")
        await ask(behalf, "cluster1-copied")
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc") as hub:
            await judged_otherwise(admin, behalf, "cluster1-aaaaa", "cluster1-copied")
            assert hub.driver.vote(await known(admin)) is Vote.ABSTAIN
            await until(lambda: warned(admin, "CompetingRequests"))
            await admin.delete(SIGNING_REQUESTS, "cluster1-copied")
            await until(lambda: approved(admin, "cluster1-aaaaa"))

    async def test_a_name_in_use_is_not_given_away(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-taken")
        await csr.managed_cluster(admin, csr.JOINED, csr.ALIVE)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await judged_otherwise(admin, behalf, "cluster1-taken")
            await until(lambda: warned(admin, "NameInUse"))
            await csr.managed_cluster(admin, csr.JOINED, csr.LAPSED)
            await until(lambda: approved(admin, "cluster1-taken"))


class TestWhoAsks:
    """`csr-user` is anybody's to write: it counts on requests of the gRPC server's own account alone."""

    @pytest.mark.parametrize("forger", [BOOTSTRAP, "system:serviceaccount:default:grpc-server-sa", AGENT.common_name])
    @pytest.mark.parametrize("claimed", [BOOTSTRAP, AGENT.common_name])
    async def test_a_forged_annotation_lets_nobody_in(
        self,
        admin: InProcessClient,
        server: ApiServer,
        behalf: InProcessClient,
        authority: AuthorityFiles,
        forger: str,
        claimed: str,
    ) -> None:
        await csr.may_renew(admin)
        await ask(client_of(server, forger), "cluster1-forged", user=claimed)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc") as hub:
            await judged_otherwise(admin, behalf, "cluster1-forged")
            assert hub.driver.vote(await known(admin)) is Vote.ABSTAIN
            assert hub.driver.agents(await known(admin)) == frozenset()

    async def test_a_forged_request_does_not_keep_anybody_out(
        self, admin: InProcessClient, server: ApiServer, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-honest")
        await ask(client_of(server, "stranger"), "cluster1-forged", user=BOOTSTRAP)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await until(lambda: approved(admin, "cluster1-honest"))
            assert await verdict(admin, "cluster1-forged") == ""

    async def test_an_annotation_that_is_changed_later_is_judged_as_it_is(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc") as hub:
            await ask(behalf, "cluster1-aaaaa", user="stranger")
            await judged_otherwise(admin, behalf, "cluster1-aaaaa")
            assert hub.driver.vote(await known(admin)) is Vote.ABSTAIN
            await admin.patch(SIGNING_REQUESTS, "cluster1-aaaaa", {"metadata": {"annotations": {CSR_USER: BOOTSTRAP}}})
            await until(lambda: approved(admin, "cluster1-aaaaa"))

    async def test_the_servers_account_is_the_administrators_choice(
        self, admin: InProcessClient, server: ApiServer, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        other = client_of(server, "system:serviceaccount:hosted:grpc-server-sa")
        options = authority.options(BOOTSTRAP, grpc_server_account="system:serviceaccount:hosted:grpc-server-sa")
        await ask(behalf, "cluster2-aaaaa", AgentIdentity("cluster2", "abcde"))
        async with hub_driver(admin, options, driver="grpc"):
            await ask(other, "cluster1-aaaaa")
            await until(lambda: approved(admin, "cluster1-aaaaa"))
            assert await verdict(admin, "cluster2-aaaaa") == "", "the usual account is nobody here"

    def test_groups_follow_from_the_name_alone(self) -> None:
        def who(name: str | None, username: str = SERVER) -> tuple[str, tuple[str, ...]]:
            found = requester_of(
                {
                    "metadata": {"annotations": {CSR_USER: name}} if name is not None else {},
                    "spec": {"username": username, "groups": ["system:masters"], "uid": "u", "extra": {"x": ["y"]}},
                },
                frozenset({SERVER}),
            )
            assert not found.uid
            assert not found.extra
            return found.name, found.groups

        assert who("alice") == ("alice", ("system:authenticated",))
        assert who(BOOTSTRAP)[1] == (
            "system:serviceaccounts",
            "system:serviceaccounts:open-cluster-management",
            "system:authenticated",
        )
        assert who(AGENT.common_name)[1] == (*sorted(AGENT.organizations), "system:authenticated")
        for nobody in (who(None), who(""), who("alice", "bob"), who("alice", "")):
            assert nobody == (UNKNOWN.name, ())
        assert requester_of({}, frozenset({SERVER})) == UNKNOWN


class TestRenewals:
    async def test_an_agent_that_may_renew_gets_its_next_certificate(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-renew", user=AGENT.common_name)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await judged_otherwise(admin, behalf, "cluster1-renew")
            await csr.may_renew(admin)
            await csr.managed_cluster(admin, csr.JOINED, ("HubAcceptedManagedCluster", "True"))
            await until(lambda: issued(admin, "cluster1-renew"))

    async def test_nobody_renews_for_another(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await csr.may_renew(admin)
        await ask(behalf, "cluster1-other", user=AgentIdentity("cluster1", "fghij").common_name)
        await ask(behalf, "cluster2-other", AgentIdentity("cluster2", "abcde"), user=AGENT.common_name)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await judged_otherwise(admin, behalf, "cluster1-other", "cluster2-other")


async def known(admin: InProcessClient, name: str = "cluster1") -> ManagedCluster:
    return ManagedCluster.decode(await admin.get(MANAGED_CLUSTERS, name))


async def warned(admin: InProcessClient, reason: str) -> bool:
    return any(event["reason"] == reason for event in (await admin.list(EVENTS)).items)


def cluster(annotations: dict[str, str] | None = None) -> ManagedCluster:
    return ManagedCluster.decode({"metadata": {"name": "cluster1", "annotations": annotations or {}}})


class TestWhoseClusters:
    async def test_marked_ones_are_its_own_and_nothing_is_to_be_granted(
        self, admin: InProcessClient, authority: AuthorityFiles
    ) -> None:
        async with hub_driver(admin, authority.options(), driver="grpc") as hub:
            assert hub.driver.owns(cluster({DRIVER_ANNOTATION: "grpc"}))
            for foreign in ({}, {DRIVER_ANNOTATION: "csr"}, {DRIVER_ANNOTATION: ""}, {CLUSTER_LABEL: "grpc"}):
                assert not hub.driver.owns(cluster(foreign))
                assert hub.driver.vote(cluster(foreign)) is Vote.ABSTAIN
            assert (await hub.driver.grant(cluster())).ok
            assert (await hub.driver.revoke(cluster())).ok

    async def test_a_request_of_a_trusted_identity_speaks_for_its_cluster(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc") as hub:
            await ask(behalf, "cluster1-aaaaa")
            await until(lambda: voted(admin, hub, Vote.ALLOW))

    async def test_agents_are_those_whose_first_request_was_approved_under_this_very_cluster(
        self, admin: InProcessClient, server: ApiServer, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc") as hub:
            await ask(behalf, "cluster1-aaaaa")
            await until(lambda: named(admin, hub, AGENT.common_name))
            # By hand, whoever made the request: an administrator has judged it.
            second = AgentIdentity("cluster1", "fghij")
            await ask(client_of(server, "alice"), "cluster1-byhand", second)
            await approve(admin, "cluster1-byhand")
            await until(lambda: named(admin, hub, AGENT.common_name, second.common_name))
            await admin.delete(MANAGED_CLUSTERS, "cluster1")
            later = ManagedCluster.decode(
                {"metadata": {"name": "cluster1", "uid": "another", "creationTimestamp": "2999-01-01T00:00:00Z"}}
            )
            assert hub.driver.agents(later) == frozenset()

    async def test_one_that_was_there_before_is_marked_once_its_agent_is_approved(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        """As an administrator prepares clusters, or as they change their driver."""
        await csr.managed_cluster(admin)
        await csr.managed_cluster(admin, name="cluster2")
        await admin.patch(MANAGED_CLUSTERS, "cluster2", {"metadata": {"annotations": {DRIVER_ANNOTATION: "other"}}})
        async with hub_driver(admin, authority.options(), driver="grpc") as hub:
            await ask(behalf, "cluster1-aaaaa")
            await ask(behalf, "cluster2-aaaaa", AgentIdentity("cluster2", "abcde"))
            assert not hub.driver.owns(await known(admin))
            for name in ("cluster1-aaaaa", "cluster2-aaaaa"):
                await approve(admin, name)
                await until(lambda name=name: issued(admin, name))  # type: ignore[misc]
            await until(lambda: owned(admin, hub))
            other = await known(admin, "cluster2")
            assert other.metadata.annotations[DRIVER_ANNOTATION] == "other", "another's mark stays"

    async def test_one_whose_agent_nobody_approved_is_left_as_it_is(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await csr.managed_cluster(admin)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc") as hub:
            await ask(behalf, "cluster1-aaaaa", user="stranger")
            await judged_otherwise(admin, behalf, "cluster1-aaaaa")
            assert not hub.driver.owns(await known(admin))


async def voted(admin: InProcessClient, hub: RunningHub, wanted: Vote) -> bool:
    return hub.driver.vote(await known(admin)) is wanted


async def named(admin: InProcessClient, hub: RunningHub, *users: str) -> bool:
    return hub.driver.agents(await known(admin)) == frozenset(users)


async def owned(admin: InProcessClient, hub: RunningHub) -> bool:
    return hub.driver.owns(await known(admin))


class TestBesideCsr:
    async def test_keys_compete_for_a_name_whatever_they_come_by(
        self, admin: InProcessClient, server: ApiServer, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        bootstrap = client_of(server, BOOTSTRAP)
        # Approved by csr and not joined: over gRPC another key has to wait.
        await csr.ask(bootstrap, "cluster1-plain")
        await csr.ask(bootstrap, "cluster2-plain", AgentIdentity("cluster2", "abcde"))
        async with hub_driver(admin, csr.TRUSTED):
            await until(lambda: approved(admin, "cluster1-plain"))
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc") as hub:
            await ask(behalf, "cluster1-other")
            await judged_otherwise(admin, behalf, "cluster1-other")
            assert hub.driver.vote(await known(admin)) is Vote.ABSTAIN
            # And the other way round.
            await ask(behalf, "cluster3-grpc", AgentIdentity("cluster3", "abcde"))
            await until(lambda: approved(admin, "cluster3-grpc"))
        await csr.ask(bootstrap, "cluster3-plain", AgentIdentity("cluster3", "abcde"))
        async with hub_driver(admin, csr.TRUSTED):
            await csr.judged_otherwise(admin, bootstrap, "cluster3-plain")

    async def test_each_driver_answers_requests_of_its_own_signer_alone(
        self, admin: InProcessClient, server: ApiServer, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        bootstrap = client_of(server, BOOTSTRAP)
        async with hub_driver(admin, csr.TRUSTED), hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await csr.ask(bootstrap, "plain-aaaaa", AgentIdentity("plain", "abcde"))
            await ask(behalf, "cluster1-aaaaa")
            for name in ("plain-aaaaa", "cluster1-aaaaa"):
                await until(lambda name=name: issued(admin, name))  # type: ignore[misc]
        [by_csr, by_grpc] = [await issued(admin, name) for name in ("plain-aaaaa", "cluster1-aaaaa")]
        assert by_csr is not None
        assert by_grpc is not None
        assert authority.authority.signed(by_grpc)
        assert not authority.authority.signed(by_csr)

    async def test_a_users_place_on_one_list_is_none_on_the_other(
        self, admin: InProcessClient, server: ApiServer, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-aaaaa", user="alice")
        async with (
            hub_driver(admin, {"auto-approved-csr-users": ("alice",)}),
            hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"),
        ):
            await judged_otherwise(admin, behalf, "cluster1-aaaaa")

    def test_signer_and_account_are_named_as_upstream_has_them(self) -> None:
        assert (GRPC_SIGNER, CSR_USER) == ("open-cluster-management.io/grpc", "open-cluster-management.io/csr-user")


class TestOptions:
    @pytest.mark.parametrize(
        ("changed", "complaint"),
        [
            ({"grpc-ca-file": ()}, "--grpc-ca-file: missing"),
            ({"grpc-key-file": ()}, "--grpc-key-file: missing"),
            ({"grpc-signing-duration": ("a while",)}, "--grpc-signing-duration: expected a duration"),
            ({"grpc-signing-duration": ("-1h",)}, "--grpc-signing-duration: expected a duration of at least a second"),
            ({"grpc-cafile": ("x",)}, "--grpc-cafile: there is no such option here; there is --auto-approved-grpc-users"),
        ],
    )
    async def test_what_does_not_do_is_refused_by_name(
        self, admin: InProcessClient, authority: AuthorityFiles, changed: dict[str, tuple[str, ...]], complaint: str
    ) -> None:
        with pytest.raises(DriverConfigError) as refused:
            async with hub_driver(admin, {**authority.options(), **changed}, driver="grpc"):
                raise AssertionError("the driver took it")
        assert complaint in str(refused.value)
