"""With several hubs to go to: which one an agent chooses, and when it leaves one for another."""

from pathlib import Path
from typing import Any

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.authentication import UserInfo
from muster.registration.agent.failover import Failover, denied, objection
from muster.registration.agent.state.bootstrap import Candidate
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.kubeconfigs import KubeconfigEndpoint
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLES
from tests.support.fake_clock import FakeClock
from tests.unit.registration.agent.conftest import Fleet, Link, until

TWO = {"bootstrap_secrets": ("first", "second"), "hub_connection_timeout": 100.0}


def candidate(name: str) -> Candidate:
    url = f"https://{name}"
    return Candidate(name, KubeconfigEndpoint(HubAddress(name, url), url, Path(name), name), name)


async def test_a_hub_that_failed_goes_to_the_end_of_the_list_for_a_while(clock: FakeClock) -> None:
    a, b, c = candidate("a"), candidate("b"), candidate("c")
    failover = Failover(clock, 100)
    failover.failed(a.address)
    await clock.advance(10)
    failover.failed(b.address)
    assert failover.order([a, b, c]) == [c, a, b]
    await clock.advance(95)
    assert failover.order([a, b, c]) == [a, c, b]
    await clock.advance(10)
    assert failover.order([a, b, c]) == [a, b, c]


@pytest.mark.parametrize(
    ("accepts", "condition", "expected"),
    [(True, "True", False), (False, "True", True), (False, "False", True), (False, "", False)],
    ids=["accepted", "just denied", "denied", "not decided yet"],
)
def test_only_a_decision_against_the_cluster_is_a_denial(accepts: bool, condition: str, expected: bool) -> None:
    conditions = [{"type": "HubAcceptedManagedCluster", "status": condition}] if condition else []
    cluster: dict[str, Any] = {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": accepts}}
    assert denied(ManagedCluster.decode({**cluster, "status": {"conditions": conditions}})) is expected


async def test_a_bootstrap_identity_without_the_rights_to_register_is_passed_over(fleet: Fleet) -> None:
    hub = Link(fleet.hub, UserInfo("bootstrap", groups=("system:authenticated",)))
    assert await objection(hub, "c1", "csr") == ""
    await fleet.hub.admin.patch(CLUSTER_ROLES, "bootstrap", {"rules": [_rule("managedclusters", "get")]})
    assert "may not create managedclusters" in await objection(hub, "c1", "csr")
    assert "create certificatesigningrequests" in await objection(hub, "c1", "csr")
    assert "certificatesigningrequests" not in await objection(hub, "c1", "awsirsa")


async def test_a_hub_that_does_not_answer_is_passed_over(fleet: Fleet) -> None:
    hub = Link(fleet.hub, UserInfo("bootstrap", groups=("system:authenticated",)))
    fleet.hub.cut.set()
    assert "connection refused" in await objection(hub, "c1", "csr")


async def test_a_hub_that_denied_the_cluster_is_passed_over(fleet: Fleet) -> None:
    hub = Link(fleet.hub, UserInfo("bootstrap", groups=("system:authenticated",)))
    await _create(fleet.hub.admin)
    assert await objection(hub, "c1", "csr") == ""
    await fleet.hub.set_condition("HubAcceptedManagedCluster", "False", "HubClusterAdminDenied")
    assert await objection(hub, "c1", "csr") == "the hub has denied this cluster"


async def test_the_first_hub_that_will_have_the_cluster_is_joined(fleet: Fleet) -> None:
    await _give_both(fleet)
    async with fleet.running(**TWO) as agent:
        await fleet.join()
        assert agent.state.hub == fleet.hub.url
    assert await fleet.other.cluster() is None


async def test_when_the_first_hub_is_away_the_second_is_joined(fleet: Fleet) -> None:
    await _give_both(fleet)
    fleet.hub.cut.set()
    async with fleet.running(**TWO) as agent:
        await fleet.join(fleet.other)
        assert agent.state.hub == fleet.other.url


async def test_a_denial_makes_an_agent_leave_for_the_other_hub(fleet: Fleet) -> None:
    await _give_both(fleet)
    async with fleet.running(**TWO) as agent:
        await fleet.join()
        await fleet.hub.deny()
        await fleet.join(fleet.other)
        assert agent.state.hub == fleet.other.url


async def test_silence_of_the_hub_makes_an_agent_leave_for_the_other_one(fleet: Fleet) -> None:
    await _give_both(fleet)
    async with fleet.running(**TWO) as agent:
        await fleet.join()
        await until(lambda: fleet.hub.count("PUT", "/leases/"), "a renewed lease")
        fleet.hub.cut.set()
        await fleet.advance(60)
        assert agent.state.hub == fleet.hub.url
        await fleet.advance(70)
        await fleet.join(fleet.other)
        assert agent.state.hub == fleet.other.url


async def test_a_hub_on_which_nobody_approves_gives_way_to_the_other(fleet: Fleet) -> None:
    await _give_both(fleet)
    async with fleet.running(**TWO):
        await until(fleet.hub.requests_made, "a request on the first hub")
        await fleet.advance(110)
        await until(fleet.other.requests_made, "a request on the second hub")


async def test_going_round_hubs_on_which_nobody_approves_makes_one_request_on_each(fleet: Fleet) -> None:
    await _give_both(fleet)
    async with fleet.running(**TWO):
        await until(fleet.hub.requests_made, "a request on the first hub")
        for _ in range(4):
            await fleet.advance(110)
        await until(fleet.other.requests_made, "a request on the second hub")
    assert len(await fleet.hub.requests_made()) == 1
    assert len(await fleet.other.requests_made()) == 1


async def test_a_single_hub_is_never_left_because_of_a_denial(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running(hub_connection_timeout=100.0) as agent:
        await fleet.join()
        await fleet.hub.deny()
        await fleet.advance(300)
        assert (agent.state.phase, agent.state.hub) == ("serving", fleet.hub.url)


async def test_when_no_hub_will_have_the_cluster_the_credential_it_has_stays_in_use(fleet: Fleet) -> None:
    await _give_both(fleet)
    async with fleet.running(**TWO) as agent:
        await fleet.join()
        fleet.other.cut.set()
        await fleet.hub.deny()
        await fleet.advance(60)
        await fleet.hub.accept()
        await fleet.advance(60)
        await until(lambda: (agent.state.phase, agent.state.hub) == ("serving", fleet.hub.url), "serving again")
    assert len(await fleet.hub.requests_made()) == 1


async def test_going_back_and_forth_between_hubs_that_both_refuse_is_done_with_patience(fleet: Fleet) -> None:
    await _give_both(fleet)
    async with fleet.running(**TWO):
        await fleet.join()
        fleet.other.cut.set()
        await fleet.hub.deny()
        await fleet.advance(30)
        fleet.hub.requests.clear()
        await fleet.advance(600)
        assert 0 < fleet.hub.count("POST", "/selfsubjectaccessreviews") <= 6 * 30
        assert fleet.hub.count("WATCH", "/managedclusters") <= 30


async def _give_both(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig(), "first")
    await fleet.give(fleet.other.kubeconfig(), "second")


async def _create(client: KubeClient) -> None:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    await client.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "c1"}})


def _rule(resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": ["cluster.open-cluster-management.io"], "resources": [resource], "verbs": list(verbs)}
