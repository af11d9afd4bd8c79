"""Denial takes effect at once and completely, whatever state the cluster was in; being accepted again gives everything back."""

import asyncio

import pytest

from muster.registration.drivers.interfaces import GrantResult, GrantStep
from muster.registration.hub.clusters.acceptance import Acceptance, denied_condition
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import RESOURCE_CLEANUP
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, NAMESPACES, ROLE_BINDINGS
from muster.runtime.client.errors import Forbidden
from tests.unit.registration.hub.conftest import Play

ROLE = "open-cluster-management:managedcluster:c1"


async def accepted(play: Play, name: str = "c1") -> None:
    await play.create_cluster(name, accepts=True)
    await play.until_condition(name, "True", "HubClusterAdminAccepted")


async def denied(play: Play, name: str = "c1") -> None:
    await play.deny(name)
    await play.until_condition(name, "False", "HubClusterAdminDenied")


async def test_denial_leaves_one_rule_and_the_namespace(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await denied(play)
        assert (await play.condition("c1"))["message"] == "Denied by hub cluster admin"
        (rule,) = (await play.admin.get(CLUSTER_ROLES, ROLE))["rules"]
        assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (["managedclusters"], ["c1"], ["get", "list", "watch"])
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:registration", "c1")
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        assert await play.get(NAMESPACES, "c1")
        assert play.driver.calls == [("grant", "c1"), ("revoke", "c1")]
        agent = play.agent("c1")
        assert not (await agent.get(MANAGED_CLUSTERS, "c1"))["spec"]["hubAcceptsClient"]
        with pytest.raises(Forbidden):
            await agent.list(LEASES, "c1")
        with pytest.raises(Forbidden):
            await agent.patch(MANAGED_CLUSTERS, "c1", {"status": {}}, subresource="status")


async def test_denial_revokes_at_once_though_works_are_left(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await play.create_work("c1", "w1", held=True)
        await play.create_work("c1", "w2", held=True)
        await denied(play)
        assert ("revoke", "c1") in play.driver.calls
        assert (await play.condition("c1"))["message"] == "Denied by hub cluster admin; ManifestWorks left in namespace c1: 2"
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:registration", "c1")
        # The work agent's binding is marked, and held for as long as it is needed.
        held = await play.admin.get(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        assert held["metadata"]["deletionTimestamp"]
        agent = play.agent("c1")
        for work in ("w1", "w2"):
            await play.admin.delete(MANIFEST_WORKS, work, "c1")
            await agent.patch(MANIFEST_WORKS, work, {"metadata": {"finalizers": None}}, "c1")
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        with pytest.raises(Forbidden):
            await agent.list(MANIFEST_WORKS, "c1")

        async def nothing_left() -> bool:
            return bool((await play.condition("c1"))["message"] == "Denied by hub cluster admin")

        await play.until(nothing_left)


async def test_a_cluster_denied_while_its_acceptance_failed_leaves_nothing_behind(play: Play) -> None:
    play.driver.outcome = lambda cluster: GrantResult((GrantStep("role", "quota exceeded"),))
    async with play.running(Acceptance):
        await play.create_cluster("c1", accepts=True)
        await play.until_condition("c1", "False", "Error")
        play.driver.outcome = lambda cluster: GrantResult()
        await denied(play)
        assert ("revoke", "c1") in play.driver.calls
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:registration", "c1")
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        assert len((await play.admin.get(CLUSTER_ROLES, ROLE))["rules"]) == 1


async def test_the_condition_tells_the_time_of_denial_even_when_it_was_false_before(play: Play) -> None:
    play.driver.outcome = lambda cluster: GrantResult((GrantStep("role", "quota exceeded"),))
    async with play.running(Acceptance):
        await play.create_cluster("c1", accepts=True)
        before = await play.until_condition("c1", "False", "Error")
        await play.clock.advance(3600)
        await denied(play)
        after = await play.condition("c1")
        assert after["lastTransitionTime"] > before["lastTransitionTime"]


async def test_a_denial_made_while_no_hub_ran_is_caught_up_with(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
    await play.deny("c1")
    # An edited condition does not hide that permissions are there.
    await play.admin.patch(MANAGED_CLUSTERS, "c1", {"status": {"conditions": []}}, subresource="status")
    async with play.running(Acceptance):
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:registration", "c1")


async def test_a_binding_whose_label_was_taken_off_does_not_survive_denial(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
    await play.admin.patch(ROLE_BINDINGS, f"{ROLE}:registration", {"metadata": {"labels": None}}, "c1")
    await play.deny("c1")
    async with play.running(Acceptance):
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:registration", "c1")


async def test_a_held_binding_whose_label_was_taken_off_is_not_lost_sight_of(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await play.create_work("c1", "w", held=True)
    await play.admin.patch(ROLE_BINDINGS, f"{ROLE}:work", {"metadata": {"labels": None}}, "c1")
    await play.deny("c1")
    async with play.running(Acceptance):
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        await play.clock.advance(60)
        await play.at_rest()
        assert await play.get(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        await play.let_go(MANIFEST_WORKS, "w", "c1")
        await play.admin.delete(MANIFEST_WORKS, "w", "c1")
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:work", "c1")


async def test_a_failed_revocation_is_named_and_tried_again(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        play.driver.outcome = lambda cluster: GrantResult((GrantStep("delete role", "in use"),))
        await denied(play)
        assert "not yet revoked:\nscripted: delete role: in use" in (await play.condition("c1"))["message"]
        play.driver.outcome = lambda cluster: GrantResult()

        async def healed() -> bool:
            return bool((await play.condition("c1"))["message"] == "Denied by hub cluster admin")

        await play.until(healed)


async def test_a_denied_cluster_cannot_get_its_permissions_back_by_editing_them(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await denied(play)
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await play.admin.patch(CLUSTER_ROLES, ROLE, {"rules": [everything]})

        async def shrunk() -> bool:
            return bool((await play.admin.get(CLUSTER_ROLES, ROLE))["rules"] != [everything])

        await play.until(shrunk)


async def test_a_denied_cluster_at_rest_costs_no_request(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await denied(play)
        await play.at_rest()
        before = len(play.hub_client.requests)
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"status": {"version": {"kubernetes": "v1"}}}, subresource="status")
        await play.at_rest()
        assert play.hub_client.requests[before:] == []


async def test_a_cluster_accepted_again_has_everything_back_though_its_old_binding_is_still_going(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await play.create_work("c1", "w", held=True)
        await denied(play)
        old = await play.admin.get(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        await play.accept("c1")
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        new = await play.admin.get(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert "deletionTimestamp" not in new["metadata"]
        assert len((await play.admin.get(CLUSTER_ROLES, ROLE))["rules"]) == 4
        assert play.driver.calls == [("grant", "c1"), ("revoke", "c1"), ("grant", "c1")]
        await play.agent("c1").list(LEASES, "c1")


async def test_accepting_and_denying_in_quick_succession_ends_as_the_last_word_says(play: Play) -> None:
    async with play.running(Acceptance):
        await play.create_cluster("c1")
        for word in (True, False) * 6:
            await play.accept("c1", word)
            await asyncio.sleep(0.003)
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        await play.until_gone(ROLE_BINDINGS, f"{ROLE}:registration", "c1")
        await play.accept("c1")
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        await play.at_rest()
        cluster = await play.admin.get(MANAGED_CLUSTERS, "c1")
        assert cluster["metadata"]["finalizers"] == [RESOURCE_CLEANUP]
        assert await play.get(CLUSTER_ROLE_BINDINGS, ROLE)
        assert play.driver.calls[-1] == ("grant", "c1")


def test_the_message_names_what_is_left_and_what_failed() -> None:
    condition = denied_condition("c1", [{}, {}], ("a: b", "c: d", "e", "f", "g", "h", "i"))
    assert condition.message.splitlines() == [
        "Denied by hub cluster admin; ManifestWorks left in namespace c1: 2; not yet revoked:",
        "a: b",
        "c: d",
        "e",
        "f",
        "g",
        "and 2 more",
    ]
