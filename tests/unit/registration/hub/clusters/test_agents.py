"""Rights are those of the agents that were let in under this very ManagedCluster, and of no agent of an earlier one of its name."""

import pytest

from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.context import HubControllerContext
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_UID, DRIVER_ANNOTATION
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, LEASES, ROLE_BINDINGS
from muster.runtime.client.errors import Forbidden
from tests.unit.registration.hub.conftest import Play

ROLE = "open-cluster-management:managedcluster:c1"
PREFIX = "system:open-cluster-management:"
FORMER, LATTER = f"{PREFIX}c1:former", f"{PREFIX}c1:latter"


def names(play: Play, *users: str) -> None:
    """From now on the driver names these agents."""
    play.driver.named = lambda cluster: frozenset(users)


async def may(play: Play, user: str) -> bool:
    """Whether somebody with a certificate of the cluster's group may do an agent's work."""
    client = play.client(user, f"{PREFIX}c1")
    try:
        await client.get(MANAGED_CLUSTERS, "c1")
        await client.list(LEASES, "c1")
    except Forbidden:
        return False
    return True


async def accepted(play: Play) -> None:
    await play.create_cluster("c1", accepts=True)
    await play.until_condition("c1", "True", "HubClusterAdminAccepted")


async def removed(play: Play) -> None:
    await play.admin.delete(MANAGED_CLUSTERS, "c1")
    await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_only_agents_that_the_driver_names_have_rights(play: Play) -> None:
    names(play, LATTER)
    async with play.running(Acceptance):
        await accepted(play)
        assert await may(play, LATTER)
        assert not await may(play, FORMER)


async def test_the_agent_of_a_removed_cluster_has_none_in_the_next_of_its_name(play: Play) -> None:
    async with play.running(Acceptance):
        names(play, FORMER)
        await accepted(play)
        assert await may(play, FORMER)
        await removed(play)
        names(play, LATTER)
        await accepted(play)
        assert not await may(play, FORMER)
        assert await may(play, LATTER)


async def test_an_agent_that_is_named_later_gets_its_rights_when_the_driver_says_so(play: Play) -> None:
    names(play)
    made: list[Acceptance] = []

    def make(world: HubControllerContext) -> Acceptance:
        made.append(Acceptance(world))
        return made[0]

    async with play.running(make):
        await accepted(play)
        assert not await may(play, LATTER)
        names(play, LATTER)
        made[0].reconsider("c1")
        await play.until(lambda: may(play, LATTER))


async def test_who_was_named_long_before_the_cluster_is_accepted_has_rights_then(play: Play) -> None:
    names(play, LATTER)
    async with play.running(Acceptance):
        await play.create_cluster("c1")
        await play.at_rest()
        names(play)
        await play.accept("c1")
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        assert await may(play, LATTER)


async def test_who_was_named_once_is_remembered_over_restarts_and_denials(play: Play) -> None:
    names(play, FORMER)
    async with play.running(Acceptance):
        await accepted(play)
    names(play)
    async with play.running(Acceptance):
        await play.deny("c1")
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        assert not await may(play, FORMER)
        await play.accept("c1")
        await play.until(lambda: may(play, FORMER))


async def test_a_binding_that_somebody_deletes_is_put_back_with_whom_it_named(play: Play) -> None:
    names(play, FORMER)
    async with play.running(Acceptance):
        await accepted(play)
        names(play)
        for resource, name, namespace in (
            (CLUSTER_ROLE_BINDINGS, ROLE, ""),
            (ROLE_BINDINGS, f"{ROLE}:registration", "c1"),
        ):
            await play.admin.delete(resource, name, namespace)
            await play.until(lambda: may(play, FORMER))


@pytest.mark.parametrize("annotated", [True, False], ids=["of this hub", "from before"])
async def test_a_binding_that_was_left_by_an_earlier_cluster_counts_for_nothing(play: Play, annotated: bool) -> None:
    """Its finalizer was taken off by hand while no hub ran."""
    if annotated:
        names(play, FORMER)
    async with play.running(Acceptance):
        await accepted(play)
    if not annotated:
        await play.admin.patch(CLUSTER_ROLE_BINDINGS, ROLE, {"metadata": {"annotations": {CLUSTER_UID: None}}})
    await play.admin.delete(MANAGED_CLUSTERS, "c1")
    await play.let_go(MANAGED_CLUSTERS, "c1")
    await play.until_gone(MANAGED_CLUSTERS, "c1")
    names(play, LATTER)
    await play.create_cluster("c1", accepts=True)
    async with play.running(Acceptance):
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        assert await may(play, LATTER)
        assert not await may(play, FORMER)


async def test_the_group_of_a_binding_from_before_is_kept_while_its_cluster_lives_and_no_longer(play: Play) -> None:
    """Of another hub, or of one that did not tell agents apart: nobody knows their names any more."""
    async with play.running(Acceptance):
        await accepted(play)
    await play.admin.patch(CLUSTER_ROLE_BINDINGS, ROLE, {"metadata": {"annotations": {CLUSTER_UID: None}}})
    names(play, LATTER)
    async with play.running(Acceptance):
        await play.until(lambda: marked(play))
        assert await may(play, FORMER)
        await removed(play)
        await accepted(play)
        assert not await may(play, FORMER)
        assert await may(play, LATTER)


async def marked(play: Play) -> bool:
    binding = await play.admin.get(CLUSTER_ROLE_BINDINGS, ROLE)
    cluster = await play.admin.get(MANAGED_CLUSTERS, "c1")
    annotations = binding["metadata"].get("annotations") or {}
    return bool(annotations.get(CLUSTER_UID) == cluster["metadata"]["uid"])


async def test_a_cluster_that_no_driver_owns_is_let_in_by_nobody(play: Play) -> None:
    """Who introduces a cluster writes its annotations, and by them chooses the driver."""
    play.driver.mine = lambda cluster: False
    async with play.running(Acceptance):
        await play.create_cluster("c1", accepts=True, annotations={DRIVER_ANNOTATION: "elsewhere"})
        condition = await play.until_condition("c1", "False", "Error")
        assert "registers by driver 'elsewhere', which this hub has not enabled" in condition["message"]
        assert not await may(play, FORMER)


async def test_users_of_other_clusters_that_somebody_adds_are_taken_out_again(play: Play) -> None:
    names(play, LATTER)
    async with play.running(Acceptance):
        await accepted(play)
        other = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"{PREFIX}c2:agent"}
        await play.admin.patch(CLUSTER_ROLE_BINDINGS, ROLE, {"subjects": [other]})

        async def put_right() -> bool:
            binding = await play.admin.get(CLUSTER_ROLE_BINDINGS, ROLE)
            return [one["name"] for one in binding["subjects"]] == ["open-cluster-management:c1", LATTER]

        await play.until(put_right)
