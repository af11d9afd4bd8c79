"""A deleted cluster goes in order: works while the agent can still remove them, then its identity, then its permissions."""

from typing import Any

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import ObjectKey
from muster.registration.drivers.interfaces import GrantResult, GrantStep
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.clusters.collection import Collection
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import CLUSTER_LABEL, COLLECTION_CLEANUP, WORK_ROLE
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, ROLE_BINDINGS
from tests.unit.registration.hub.conftest import Play

ROLE = "open-cluster-management:managedcluster:c1"
PERMISSIONS = (
    (CLUSTER_ROLES, ROLE, ""),
    (CLUSTER_ROLE_BINDINGS, ROLE, ""),
    (ROLE_BINDINGS, f"{ROLE}:registration", "c1"),
    (ROLE_BINDINGS, f"{ROLE}:work", "c1"),
)


async def accepted(play: Play, name: str = "c1") -> None:
    await play.create_cluster(name, accepts=True)
    await play.until_condition(name, "True", "HubClusterAdminAccepted")


async def until_no_permissions(play: Play) -> None:
    for resource, name, namespace in PERMISSIONS:
        await play.until_gone(resource, name, namespace)


async def test_a_deleted_cluster_takes_its_permissions_with_it_and_leaves_its_namespace(play: Play) -> None:
    async with play.running(Acceptance, Collection):
        await accepted(play)
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
        await until_no_permissions(play)
        assert await play.get(NAMESPACES, "c1")
        assert play.driver.calls == [("grant", "c1"), ("revoke", "c1")]


@pytest.mark.parametrize("cleanup", [True, False], ids=["collected by the hub", "collected by somebody else"])
async def test_the_identity_outlives_the_works_so_that_the_agent_can_remove_them(play: Play, cleanup: bool) -> None:
    async with play.running(Acceptance, Collection, resource_cleanup=cleanup):
        await accepted(play)
        await play.create_work("c1", "w", held=True)
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        if not cleanup:
            await play.admin.delete(MANIFEST_WORKS, "w", "c1")

        async def deleting() -> bool:
            return "deletionTimestamp" in (await play.admin.get(MANIFEST_WORKS, "w", "c1"))["metadata"]

        await play.until(deleting)
        await play.at_rest()
        assert ("revoke", "c1") not in play.driver.calls
        await play.agent("c1").patch(MANIFEST_WORKS, "w", {"metadata": {"finalizers": None}}, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
        assert play.driver.calls[-1] == ("revoke", "c1")
        await until_no_permissions(play)


async def test_a_cluster_denied_and_deleted_while_no_hub_ran_is_revoked_before_its_works_are_gone(play: Play) -> None:
    async with play.running(Acceptance, Collection):
        await accepted(play)
        await play.create_work("c1", "w", held=True)
    await play.deny("c1")
    await play.admin.delete(MANAGED_CLUSTERS, "c1")
    async with play.running(Acceptance, Collection):
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:registration", "c1")

        async def revoked() -> bool:
            return ("revoke", "c1") in play.driver.calls

        await play.until(revoked)
        assert await play.get(MANAGED_CLUSTERS, "c1")
        await play.let_go(MANIFEST_WORKS, "w", "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
        await until_no_permissions(play)


async def test_what_cannot_be_revoked_keeps_the_cluster_and_says_why(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        play.driver.outcome = lambda cluster: GrantResult((GrantStep("delete role", "policy p is attached"),))
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        condition = await play.until_condition("c1", "False", "Error")
        assert "policy p is attached" in condition["message"]
        play.driver.outcome = lambda cluster: GrantResult()
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_deleting_a_cluster_costs_no_request_twice(play: Play) -> None:
    async with play.running(Acceptance, Collection):
        await play.create_cluster("c0")
        await accepted(play)
        await play.at_rest()
        play.hub_client.writes()
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
        await play.at_rest()
        writes = play.hub_client.writes()
        # Condition and finalizer of the collector; four objects, the held one twice; the other finalizer.
        assert len(writes) == 8, writes


async def test_permissions_of_a_cluster_that_went_while_no_hub_ran_are_removed(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
    await play.let_go(MANAGED_CLUSTERS, "c1")
    await play.admin.delete(MANAGED_CLUSTERS, "c1")
    assert await play.get(CLUSTER_ROLES, ROLE)
    async with play.running(Acceptance):
        await until_no_permissions(play)
        await play.until_gone(CLUSTER_ROLES, WORK_ROLE)


async def test_permissions_and_identity_of_a_cluster_whose_finalizer_was_taken_off_are_removed(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        current = await play.admin.get(MANAGED_CLUSTERS, "c1")
        # Deletion and the loss of the finalizer come as one event.
        await play.let_go(MANAGED_CLUSTERS, "c1")
        await play.admin.delete(MANAGED_CLUSTERS, "c1", uid=current["metadata"]["uid"])
        await play.until(lambda: _force_gone(play))
        await until_no_permissions(play)
        assert play.driver.calls[-1] == ("revoke", "c1")


async def _force_gone(play: Play) -> bool:
    if await play.get(MANAGED_CLUSTERS, "c1"):
        await play.let_go(MANAGED_CLUSTERS, "c1")
    return not await play.get(MANAGED_CLUSTERS, "c1")


async def test_a_role_that_merely_bears_the_label_of_a_cluster_that_is_gone_is_left_alone(play: Play) -> None:
    foreign = {"metadata": {"name": "team-role", "labels": {CLUSTER_LABEL: "c1"}}, "rules": []}
    # The label names a cluster whose own role would have the name of a common one.
    traitor = {"metadata": {"name": "other-role", "labels": {CLUSTER_LABEL: "work"}}, "rules": []}
    await play.admin.create(CLUSTER_ROLES, foreign)
    await play.admin.create(CLUSTER_ROLES, traitor)
    async with play.running(Acceptance):
        await play.create_cluster("c2")
        await play.until(lambda: play.get(CLUSTER_ROLES, WORK_ROLE))
        uid = (await play.admin.get(CLUSTER_ROLES, WORK_ROLE))["metadata"]["uid"]
        await play.admin.patch(CLUSTER_ROLES, "other-role", {"metadata": {"annotations": {"touched": "yes"}}})
        await play.at_rest()
        assert await play.get(CLUSTER_ROLES, "team-role")
        assert (await play.admin.get(CLUSTER_ROLES, WORK_ROLE))["metadata"]["uid"] == uid


async def test_a_cluster_that_cannot_be_read_keeps_its_permissions(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async with play.running(Acceptance):
        await accepted(play)
    read = ManagedCluster.decode

    def refusing(data: Any) -> ManagedCluster:
        if b'"poison"' in data:
            raise ValueError("of another shape")
        return read(data)

    await play.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {"poison": "yes"}}})
    monkeypatch.setattr(ManagedCluster, "decode", refusing)
    async with play.running(Acceptance) as world:
        await world.context.informers.synced()
        assert ObjectKey("", "c1") in world.clusters.malformed
        await play.at_rest()
        assert await play.get(CLUSTER_ROLES, WORK_ROLE)
        await accepted(play, "c2")
        await play.at_rest()
        for resource, name, namespace in PERMISSIONS:
            assert await play.get(resource, name, namespace), name


async def test_a_finalizer_of_a_feature_that_was_switched_off_holds_nobody(play: Play) -> None:
    async with play.running(Acceptance, Collection):
        await accepted(play)
        await play.until(lambda: _has_finalizer(play))
    async with play.running(Acceptance, Collection, resource_cleanup=False):
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def _has_finalizer(play: Play) -> bool:
    return COLLECTION_CLEANUP in (await play.admin.get(MANAGED_CLUSTERS, "c1"))["metadata"].get("finalizers", [])
