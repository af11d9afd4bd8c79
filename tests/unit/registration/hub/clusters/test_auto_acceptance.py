"""Clusters are accepted unasked only on a driver's word, only once, and never against an administrator's."""

from typing import Any

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.golang.timestamps import format_time
from muster.registration.drivers.interfaces import Vote
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.clusters.auto_acceptance import AutoAcceptance, elected
from muster.registration.hub.context import HubControllerContext
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AUTO_ACCEPTED
from muster.runtime.client.builtin import NAMESPACES
from tests.unit.registration.hub.conftest import Play, ScriptedDriver


async def accepts(play: Play, name: str = "c1") -> bool:
    return bool((await play.admin.get(MANAGED_CLUSTERS, name))["spec"].get("hubAcceptsClient"))


@pytest.mark.parametrize(
    ("votes", "result"),
    [
        ([], False),
        ([Vote.ABSTAIN], False),
        ([Vote.ALLOW], True),
        ([Vote.ALLOW, Vote.ABSTAIN], True),
        ([Vote.ALLOW, Vote.DENY], False),
        ([Vote.DENY], False),
    ],
)
def test_one_driver_must_vouch_and_none_may_object(votes: list[Vote], result: bool) -> None:
    assert elected(votes) is result


async def test_a_cluster_that_a_driver_vouches_for_is_accepted_and_dated(play: Play) -> None:
    play.driver.ballot = lambda cluster: Vote.ALLOW
    async with play.running(AutoAcceptance, Acceptance, auto_approval=True):
        await play.create_cluster("c1", annotations={"keep": "me"})
        await play.until(lambda: accepts(play))
        annotations = (await play.admin.get(MANAGED_CLUSTERS, "c1"))["metadata"]["annotations"]
        assert annotations["keep"] == "me"
        assert annotations[AUTO_ACCEPTED] <= format_time(play.clock.now())
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")


async def test_leaving_the_proof_away_does_not_get_anybody_in(play: Play) -> None:
    """No driver owns it, so none objects; and a cluster prepared by an administrator looks the same."""
    play.driver.mine = lambda cluster: False
    async with play.running(AutoAcceptance, Acceptance, auto_approval=True) as world:
        await play.create_cluster("c1")
        await world.context.informers.synced()
        await play.at_rest()
        assert not await accepts(play)
        assert AUTO_ACCEPTED not in (await play.admin.get(MANAGED_CLUSTERS, "c1"))["metadata"].get("annotations", {})


async def test_an_objection_outweighs_a_voucher(play: Play) -> None:
    drivers: dict[str, Any] = {
        "kind": ScriptedDriver(ballot=lambda cluster: Vote.ALLOW),
        "strict": ScriptedDriver(ballot=lambda cluster: Vote.DENY),
    }
    async with play.running(AutoAcceptance, auto_approval=True, drivers=drivers):
        await play.create_cluster("c1")
        await play.at_rest()
        assert not await accepts(play)


async def test_a_denial_by_the_administrator_stays(play: Play) -> None:
    play.driver.ballot = lambda cluster: Vote.ALLOW
    async with play.running(AutoAcceptance, Acceptance, auto_approval=True):
        await play.create_cluster("c1")
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        await play.deny("c1")
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        # Not even a lost annotation brings it back.
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"annotations": None}})
        await play.at_rest()
        assert not await accepts(play)


async def test_a_cluster_that_an_administrator_accepted_and_denied_is_not_accepted_unasked(play: Play) -> None:
    allowed = [Vote.ABSTAIN]
    play.driver.ballot = lambda cluster: allowed[0]
    made: list[AutoAcceptance] = []

    def make(world: HubControllerContext) -> AutoAcceptance:
        made.append(AutoAcceptance(world))
        return made[0]

    async with play.running(make, Acceptance, auto_approval=True):
        await play.create_cluster("c1", accepts=True)
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        await play.deny("c1")
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        allowed[0] = Vote.ALLOW
        made[0].reconsider("c1")
        await play.at_rest()
        assert not await accepts(play)


@pytest.mark.parametrize("proof_first", [True, False], ids=["proof before cluster", "cluster before proof"])
async def test_it_does_not_matter_whether_proof_or_cluster_comes_first(play: Play, proof_first: bool) -> None:
    proven: set[str] = set()

    def ballot(cluster: ManagedCluster) -> Vote:
        return Vote.ALLOW if cluster.metadata.name in proven else Vote.ABSTAIN

    play.driver.ballot = ballot
    made: list[AutoAcceptance] = []

    def make(world: HubControllerContext) -> AutoAcceptance:
        made.append(AutoAcceptance(world))
        return made[0]

    async def prove() -> None:
        proven.add("c1")
        made[0].reconsider("c1")
        await play.at_rest()

    async with play.running(make, auto_approval=True) as world:
        await world.context.informers.synced()
        if proof_first:
            await prove()
        await play.create_cluster("c1")
        await play.at_rest()
        if not proof_first:
            assert not await accepts(play)
            await prove()
        await play.until(lambda: accepts(play))


async def test_without_the_feature_nobody_is_accepted_unasked(play: Play) -> None:
    play.driver.ballot = lambda cluster: Vote.ALLOW
    async with play.running(AutoAcceptance, Acceptance):
        await play.create_cluster("c1")
        await play.at_rest()
        assert not await accepts(play)


async def test_a_driver_that_breaks_on_one_cluster_does_not_keep_others_out(play: Play) -> None:
    def ballot(cluster: ManagedCluster) -> Vote:
        if cluster.metadata.name == "c1":
            raise IndexError("malformed annotation")
        return Vote.ALLOW

    play.driver.ballot = ballot
    async with play.running(AutoAcceptance, auto_approval=True):
        await play.create_cluster("c1")
        await play.create_cluster("c2")
        await play.until(lambda: accepts(play, "c2"))
        assert not await accepts(play, "c1")


@pytest.mark.parametrize("name", ["default", "payments"])
async def test_no_namespace_becomes_a_clusters_unasked_that_is_somebody_elses(play: Play, name: str) -> None:
    play.driver.ballot = lambda cluster: Vote.ALLOW
    if name != "default":
        await play.admin.create(NAMESPACES, {"metadata": {"name": name}})
    async with play.running(AutoAcceptance, Acceptance, auto_approval=True):
        await play.create_cluster(name)
        await play.create_cluster("c1")
        await play.until(lambda: accepts(play))
        await play.at_rest()
        assert not await accepts(play, name)
