"""`clusteradm accept` lets in whom it should, and nobody else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from muster.administration.errors import Refused
from muster.administration.members.accept import Accepted, AcceptOptions, accept
from muster.api.operator.v1 import AwsIrsaHubDriver, HubRegistrationDriver
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.requests import key_fingerprint, new_key, request_object
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AgentIdentity
from muster.runtime.client import DelegatingClient, Send, Write
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SIGNING_REQUESTS
from tests.unit.cli.clusteradm.conftest import AVAILABLE, HUB, Fleet, Told


async def accepted(fleet: Fleet, name: str) -> bool:
    found = await fleet.admin().get(MANAGED_CLUSTERS, name)
    return bool(found["spec"].get("hubAcceptsClient"))


async def test_a_cluster_that_asked_is_approved_and_accepted(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    csr = await fleet.request("cluster1")
    said = await fleet.ok("accept", "--clusters", "cluster1")
    assert f"CSR {csr} approved" in said
    assert "set hubAcceptsClient to true for managed cluster cluster1" in said
    assert "is accepted and will join" in said
    assert await fleet.approved(csr)
    assert await accepted(fleet, "cluster1")


async def test_accepting_again_changes_nothing(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    csr = await fleet.request("cluster1")
    await fleet.ok("accept", "--cluster", "cluster1")
    await fleet.until(lambda: fleet.signed(csr))
    before = await fleet.revision()
    said = await fleet.ok("accept", "--clusters", "cluster1")
    assert "already approved" in said
    assert "hubAcceptsClient already set for managed cluster cluster1" in said
    assert "nothing was changed" in said
    assert await fleet.revision() == before


async def test_several_clusters_are_accepted_and_the_unknown_one_is_named(fleet: Fleet) -> None:
    for name in ("a", "b"):
        await fleet.cluster(name)
        await fleet.request(name)
    complaint = await fleet.fails("accept", "--clusters", "a,missing", "-c", "b")
    assert "fail to get managedcluster missing" in complaint
    assert await accepted(fleet, "a")
    assert await accepted(fleet, "b")


async def test_a_request_for_another_clusters_certificate_is_never_approved(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    stolen = await fleet.request("cluster2", label="cluster1")
    for flags in ((), ("--skip-approve-check",), ("--requesters", "system:open-cluster-management:cluster2:agent1")):
        result = await fleet.run("accept", "--clusters", "cluster1", *flags)
        assert "its subject is of cluster 'cluster2', its label says 'cluster1'" in result.stderr
    assert not await fleet.approved(stolen)


async def test_without_a_request_nothing_is_written_and_the_end_is_1(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    before = await fleet.revision()
    assert "no csr is approved yet for cluster cluster1" in await fleet.fails("accept", "--clusters", "cluster1")
    assert await fleet.revision() == before
    await fleet.ok("accept", "--clusters", "cluster1", "--skip-approve-check")
    assert await accepted(fleet, "cluster1")


async def test_a_request_of_somebody_who_is_no_newcomer_needs_to_be_named(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    stranger = UserInfo("system:serviceaccount:team:robot", groups=("system:authenticated",))
    await fleet.admin().apply(CLUSTER_ROLES, {"metadata": {"name": "ask"}, "rules": [ASK]}, manager="test")
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": stranger.name}
    role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "ask"}
    bound = {"metadata": {"name": "ask"}, "roleRef": role, "subjects": [subject]}
    await fleet.admin().apply(CLUSTER_ROLE_BINDINGS, bound, manager="test")
    csr = await fleet.request("cluster1", user=stranger)
    assert "user 'system:serviceaccount:team:robot' is no bootstrap identity" in await fleet.fails("accept", "-c", "cluster1")
    assert not await accepted(fleet, "cluster1")
    await fleet.ok("accept", "-c", "cluster1", "--requesters", stranger.name)
    assert await fleet.approved(csr)


ASK = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}


async def test_of_several_agents_those_named_as_requesters_are_approved(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    first, second = await fleet.request("cluster1", "one"), await fleet.request("cluster1", "two")
    complaint = await fleet.fails("accept", "--clusters", "cluster1")
    assert "different requesters" in complaint
    assert not await accepted(fleet, "cluster1")
    said = await fleet.run("accept", "--clusters", "cluster1", "--requesters", "system:open-cluster-management:cluster1:two")
    assert said.exit_code == 0, said.output
    assert f"CSR {first} is not approved: requester" in said.stderr
    assert await fleet.approved(second)
    assert not await fleet.approved(first)


async def test_the_name_of_a_cluster_that_is_alive_is_not_given_to_another(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    csr = await fleet.request("cluster1", "intruder")
    complaint = await fleet.fails("accept", "--clusters", "cluster1")
    assert "has joined and is alive" in complaint
    assert "--requesters=system:open-cluster-management:cluster1:intruder" in complaint
    assert not await fleet.approved(csr)


async def test_a_cluster_of_another_driver_needs_no_request(fleet: Fleet) -> None:
    arn = {"agent.open-cluster-management.io/managed-cluster-arn": "arn:aws:eks:us-west-2:222222222222:cluster/managed-0"}
    await fleet.cluster("cluster1", metadata={"annotations": arn})
    await fleet.ok("accept", "--clusters", "cluster1")
    assert await accepted(fleet, "cluster1")


GRPC_SERVER = UserInfo("system:serviceaccount:open-cluster-management-hub:grpc-server-sa", groups=("system:masters",))
NEWCOMER = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"


async def ask_over_grpc(fleet: Fleet, name: str, user: str = NEWCOMER, asked_by: UserInfo = GRPC_SERVER, **more: Any) -> str:
    """What the hub's gRPC server makes on somebody's behalf."""
    profile = agent_profile(AgentIdentity(name, "agent1"), signer="open-cluster-management.io/grpc")
    document = request_object(f"{name}-{more.get('suffix', 'grpc')}", profile, more.get("key") or new_key())
    document["metadata"]["annotations"] = {"open-cluster-management.io/csr-user": user}
    await fleet.user(asked_by).create(SIGNING_REQUESTS, document)
    return str(document["metadata"]["name"])


MARKED = {"annotations": {"agent.open-cluster-management.io/registration-driver": "grpc"}}


async def test_a_cluster_that_asked_over_grpc_is_approved_and_accepted(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", metadata=MARKED)
    assert "no csr is approved yet" in await fleet.fails("accept", "--clusters", "cluster1")
    csr = await ask_over_grpc(fleet, "cluster1")
    assert f"CSR {csr} approved" in await fleet.ok("accept", "--clusters", "cluster1")
    assert await fleet.approved(csr)
    assert await accepted(fleet, "cluster1")


async def test_who_asked_over_grpc_is_who_the_server_says_and_nobody_else(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", metadata=MARKED)
    forger = UserInfo("system:serviceaccount:team:robot", groups=("system:masters",))
    forged = await ask_over_grpc(fleet, "cluster1", asked_by=forger)
    assert f"CSR {forged} is not approved: its requester is not authenticated as an agent" in await fleet.fails(
        "accept", "-c", "cluster1"
    )
    await fleet.cluster("cluster2", metadata=MARKED)
    stranger = await ask_over_grpc(fleet, "cluster2", user="system:serviceaccount:team:robot")
    assert "is no bootstrap identity" in await fleet.fails("accept", "-c", "cluster2")
    assert not await fleet.approved(forged)
    assert not await fleet.approved(stranger)


SERVER = "system:serviceaccount:edge:grpc"


async def test_a_hub_whose_server_has_another_account_says_so_in_its_cluster_manager(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", metadata=MARKED)
    csr = await ask_over_grpc(fleet, "cluster1", asked_by=UserInfo(SERVER, groups=("system:masters",)))
    assert "its requester is not authenticated as an agent" in await fleet.fails("accept", "-c", "cluster1")
    drivers = ["--registration-drivers=csr,grpc", "--grpc-server=hub:8090", f"--driver-option=grpc.grpc-server-account={SERVER}"]
    await fleet.ok("init", "--force", *drivers)
    found = json.loads((await fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    assert [one for one in found if f"CSR {csr} waits for approval" in one["text"]]
    assert f"CSR {csr} approved" in await fleet.ok("accept", "-c", "cluster1")
    await fleet.cluster("cluster2", metadata=MARKED)
    usual = await ask_over_grpc(fleet, "cluster2")
    assert "its requester is not authenticated as an agent" in await fleet.fails("accept", "-c", "cluster2"), (
        "it is no account of this hub's"
    )
    assert not await fleet.approved(usual)


async def test_an_administrator_may_name_the_account_of_the_server(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", metadata=MARKED)
    csr = await ask_over_grpc(fleet, "cluster1", asked_by=UserInfo(SERVER, groups=("system:masters",)))
    assert f"CSR {csr} approved" in await fleet.ok("accept", "-c", "cluster1", "--grpc-server-account", SERVER)


async def test_requests_over_grpc_and_others_compete_for_one_name(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", metadata=MARKED)
    key = new_key()
    csr, other = await ask_over_grpc(fleet, "cluster1", key=key), await fleet.request("cluster1")
    assert "with different keys" in await fleet.fails("accept", "--clusters", "cluster1")
    await fleet.run("accept", "--clusters", "cluster1", "--fingerprint", key_fingerprint(key))
    assert await fleet.approved(csr)
    assert not await fleet.approved(other)


async def test_a_fingerprint_is_not_passed_over_for_a_driver_that_the_newcomer_names(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", metadata={"annotations": {"agent.open-cluster-management.io/registration-driver": "other"}})
    key = new_key()
    await fleet.request("cluster1", key=key)
    complaint = await fleet.fails("accept", "--clusters", "cluster1", "--fingerprint", key_fingerprint(key))
    assert "registers by another driver" in complaint
    assert not await accepted(fleet, "cluster1")


async def test_waiting_tells_what_for_and_ends_when_the_cluster_is_available(fleet: Fleet) -> None:
    told = Told()
    waiting = asyncio.create_task(accept(fleet.admin(), "cluster1", AcceptOptions(wait=True, timeout=30), told))
    await fleet.until(lambda: told.heard("its agent has not introduced it yet"))
    await fleet.cluster("cluster1")
    await fleet.until(lambda: told.heard("its agent has not requested a certificate yet"))
    csr = await fleet.request("cluster1")
    await fleet.until(lambda: told.heard("the hub's controller has not dealt with it yet"))
    assert not waiting.done()
    await fleet.admin().patch(MANAGED_CLUSTERS, "cluster1", {"status": {"conditions": AVAILABLE}}, subresource="status")
    assert await waiting == Accepted("cluster1", (csr,), newly=True)


async def test_a_cluster_that_comes_back_is_let_in_by_its_new_request_not_by_that_of_its_former_life(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    old = await fleet.request("cluster1", agent="agent1")
    await fleet.ok("accept", "--clusters", "cluster1")
    await fleet.admin().delete(MANAGED_CLUSTERS, "cluster1")
    await fleet.cluster("cluster1")
    waiting = asyncio.create_task(accept(fleet.admin(), "cluster1", AcceptOptions(wait=True), Told()))
    await fleet.until(lambda: accepted(fleet, "cluster1"))
    new = await fleet.request("cluster1", agent="agent2")
    await fleet.until(lambda: fleet.approved(new))
    third = await fleet.request("cluster1", agent="agent3")
    await fleet.admin().patch(MANAGED_CLUSTERS, "cluster1", {"status": {"conditions": AVAILABLE}}, subresource="status")
    result = await waiting
    assert result.approved == (new,)
    assert await fleet.approved(old)
    assert not await fleet.approved(third)


class TestTwins:
    """Somebody with a bootstrap token copies a newcomer's request; only the key is another."""

    async def test_neither_is_approved_and_the_refusal_tells_them_apart(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        keys = new_key(), new_key()
        honest = await fleet.request("cluster1", key=keys[0])
        twin = await fleet.request("cluster1", name="cluster1-twin", key=keys[1])
        before = await fleet.revision()
        agent = "system:open-cluster-management:cluster1:agent1"
        requesters = ("--requesters", agent), ("--requesters", "system:bootstrap:ocmhub")
        for flags in ((), *requesters, ("--skip-approve-check",), ("--dry-run",), ("--wait",)):
            complaint = await fleet.fails("accept", "--clusters", "cluster1", *flags)
            assert "CSRs with different keys for cluster cluster1" in complaint
            for name, key in ((honest, keys[0]), (twin, keys[1])):
                assert f"CSR {name} (pending, " in complaint
                assert f"key {key_fingerprint(key)}, agent {agent}, requested by system:bootstrap:ocmhub" in complaint
            assert "--fingerprint=sha256:" in complaint
        assert await fleet.revision() == before

    async def test_a_flood_of_them_is_counted(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        for number in range(12):
            await fleet.request("cluster1", name=f"cluster1-{number:02d}")
        assert "; and 2 more; compare" in await fleet.fails("accept", "--clusters", "cluster1")

    async def test_the_chosen_one_is_approved_and_the_other_is_not(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        key = new_key()
        honest = await fleet.request("cluster1", key=key)
        twin = await fleet.request("cluster1", name="cluster1-twin")
        result = await fleet.run("accept", "--clusters", "cluster1", "--fingerprint", f"sha256:{'0' * 64}")
        assert result.exit_code == 1
        assert "is not the chosen one" in result.stderr
        assert "no CSR for cluster cluster1 has the chosen key" in result.stderr
        assert not await accepted(fleet, "cluster1")
        said = await fleet.ok("accept", "--clusters", "cluster1", "--fingerprint", key_fingerprint(key).upper())
        assert f"CSR {honest} approved: key {key_fingerprint(key)}" in said
        assert await fleet.approved(honest)
        assert not await fleet.approved(twin)

    async def test_one_that_comes_after_the_approval_is_refused_until_it_is_chosen(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        await fleet.request("cluster1")
        await fleet.ok("accept", "--clusters", "cluster1")
        key = new_key()
        late = await fleet.request("cluster1", name="cluster1-late", key=key)
        complaint = await fleet.fails("accept", "--clusters", "cluster1")
        assert "(approved, " in complaint
        assert "(pending, " in complaint
        assert not await fleet.approved(late)
        await fleet.ok("accept", "--clusters", "cluster1", "--fingerprint", key_fingerprint(key))
        assert await fleet.approved(late)

    async def test_a_key_that_was_not_chosen_does_not_count_even_if_it_was_approved(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        thief = await fleet.request("cluster1")
        await fleet.ok("accept", "--clusters", "cluster1")
        assert await fleet.approved(thief)
        await fleet.admin().patch(MANAGED_CLUSTERS, "cluster1", {"spec": {"hubAcceptsClient": False}})
        chosen = ("--fingerprint", key_fingerprint(new_key()))
        assert "(approved, " in await fleet.fails("accept", "--clusters", "cluster1", *chosen)
        assert not await accepted(fleet, "cluster1")

    async def test_an_agent_that_asks_again_with_its_key_is_no_twin_of_itself(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        key = new_key()
        names = [await fleet.request("cluster1", name=f"cluster1-{number}", key=key) for number in range(2)]
        await fleet.ok("accept", "--clusters", "cluster1")
        assert [await fleet.approved(name) for name in names] == [True, True]

    async def test_what_cannot_be_approved_is_no_twin(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        honest = await fleet.request("cluster1")
        await fleet.request("cluster2", name="foreign", label="cluster1")
        await fleet.request("cluster1", name="usages", usages=["client auth"])
        await fleet.ok("accept", "--clusters", "cluster1")
        assert await fleet.approved(honest)

    async def test_a_fingerprint_that_is_none_is_wrong_usage(self, fleet: Fleet) -> None:
        result = await fleet.run("accept", "--clusters", "cluster1", "--fingerprint", "sha256:abc")
        assert result.exit_code == 2
        assert "is not sha256:<64 hexadecimal digits>" in result.stderr

    async def test_a_request_that_was_replaced_after_it_was_judged_is_not_approved(self, fleet: Fleet) -> None:
        await fleet.cluster("cluster1")
        csr = await fleet.request("cluster1")
        with pytest.raises(Refused, match="was replaced by another while it was judged"):
            await accept(_Interrupted(fleet, csr), "cluster1", AcceptOptions())
        assert not await fleet.approved(csr)
        assert not await accepted(fleet, "cluster1")


class _Interrupted(InProcessClient):
    """Before its first patch, somebody puts another request in the place of one."""

    def __init__(self, fleet: Fleet, csr: str) -> None:
        super().__init__(fleet.server.client(fleet.server.clusters[HUB]), HUB)
        self._fleet = fleet
        self._csr = csr

    async def patch(self, *words: Any, **options: Any) -> Any:
        await self._fleet.admin().delete(SIGNING_REQUESTS, self._csr)
        await self._fleet.request("cluster1", name=self._csr)
        return await super().patch(*words, **options)


async def test_when_the_wait_is_over_the_cluster_has_joined(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    assert "has joined the Hub successfully" in await fleet.ok("accept", "--clusters", "cluster1", "--wait")


async def test_waiting_ends_with_1_and_the_reason_when_time_is_over(fleet: Fleet) -> None:
    complaint = await fleet.fails("accept", "--clusters", "cluster1", "--wait", "--timeout", "1")
    assert "not so after 1 s: there is no ManagedCluster of this name" in complaint


async def test_a_dry_run_writes_nothing_and_says_what_it_would_do(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    csr = await fleet.request("cluster1")
    before = await fleet.revision()
    said = await fleet.ok("accept", "--clusters", "cluster1", "--dry-run", "--wait")
    assert f"would update certificatesigningrequests.certificates.k8s.io/approval {csr}" in said
    assert "would patch managedclusters.cluster.open-cluster-management.io cluster1" in said
    assert await fleet.revision() == before


async def test_missing_permission_ends_with_1_and_leaves_nothing(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    csr = await fleet.request("cluster1")
    complaint = await fleet.fails("accept", "--clusters", "cluster1", context="mallory@hub")
    assert "forbidden" in complaint
    assert "ask an administrator" in complaint
    assert not await fleet.approved(csr)


async def test_a_cluster_that_is_no_hub_is_refused(fleet: Fleet) -> None:
    complaint = await fleet.fails("accept", "--clusters", "cluster1", context="plain")
    assert "hub oriented command should not running against non-hub cluster" in complaint


async def test_wrong_usage_ends_with_2(fleet: Fleet) -> None:
    assert "--clusters" in await fleet.fails("accept", code=2)
    assert "'nowhere' does not exist" in await fleet.fails("accept", "-c", "a", context="nowhere")


async def test_an_identity_is_put_on_a_cluster_that_others_write_to_meanwhile(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, managed = (f"arn:aws:eks:us-west-2:{account}:cluster/c" for account in ("111111111111", "222222222222"))
    await fleet.cluster("cluster1")

    async def drivers(client: Any) -> tuple[HubRegistrationDriver, ...]:
        return (HubRegistrationDriver(auth_type="awsirsa", awsirsa=AwsIrsaHubDriver(hub_cluster_arn=hub)),)

    monkeypatch.setattr("muster.administration.members.accept.configured_drivers", drivers)
    await accept(_Busy(fleet), "cluster1", AcceptOptions(identity=managed))
    found = await fleet.admin().get(MANAGED_CLUSTERS, "cluster1")
    assert found["metadata"]["annotations"]["eks-managed-cluster-arn"] == managed
    assert found["metadata"]["labels"]["by"] == "somebody"
    assert found["spec"]["hubAcceptsClient"]


class _Busy(DelegatingClient):
    """Before its first write, a controller writes."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet.admin())
        self._fleet = fleet
        self._written = False

    async def write(self, write: Write, send: Send, dry_run: bool) -> Any:
        if not self._written:
            self._written = True
            await self._fleet.admin().patch(MANAGED_CLUSTERS, "cluster1", {"metadata": {"labels": {"by": "somebody"}}})
        return await super().write(write, send, dry_run)
