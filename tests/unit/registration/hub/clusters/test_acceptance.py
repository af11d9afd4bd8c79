"""An accepted cluster gets exactly what it needs, and gets it back when somebody takes it away."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from muster.registration.drivers.interfaces import GrantResult, GrantStep
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import CLUSTER_LABEL, REGISTRATION_ROLE, RESOURCE_CLEANUP, WORK_ROLE
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, NAMESPACES, ROLE_BINDINGS
from muster.runtime.client.errors import Forbidden, TooManyRequests
from muster.runtime.client.rest import JSON, Query
from tests.unit.registration.hub.conftest import CountingClient, Play

ROLE = "open-cluster-management:managedcluster:c1"


async def accepted(play: Play, name: str = "c1") -> None:
    await play.create_cluster(name, accepts=True)
    await play.until_condition(name, "True", "HubClusterAdminAccepted")


async def test_an_accepted_cluster_has_namespace_roles_bindings_and_only_then_the_condition(play: Play) -> None:
    async with play.running(Acceptance, labels={"team": "blue"}):
        await accepted(play)
        condition = await play.condition("c1")
        assert condition["message"] == "Accepted by hub cluster admin"
        role = await play.admin.get(CLUSTER_ROLES, ROLE)
        assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
            (["certificatesigningrequests"], ["create", "get", "list", "watch"]),
            (["managedclusters/clientcertificates"], ["renew"]),
            (["managedclusters"], ["get", "list", "update", "watch"]),
            (["managedclusters/status"], ["patch", "update"]),
        ]
        for resource, name, namespace in (
            (NAMESPACES, "c1", ""),
            (CLUSTER_ROLES, ROLE, ""),
            (CLUSTER_ROLE_BINDINGS, ROLE, ""),
            (ROLE_BINDINGS, f"{ROLE}:registration", "c1"),
            (ROLE_BINDINGS, f"{ROLE}:work", "c1"),
        ):
            found = await play.admin.get(resource, name, namespace)
            assert found["metadata"]["labels"].items() >= {CLUSTER_LABEL: "c1", "team": "blue"}.items()
        cluster = await play.admin.get(MANAGED_CLUSTERS, "c1")
        assert cluster["metadata"]["finalizers"] == [RESOURCE_CLEANUP]


async def test_a_cluster_that_nobody_accepted_gets_nothing_but_the_common_roles(play: Play) -> None:
    async with play.running(Acceptance):
        await play.create_cluster("c1")
        await play.until(lambda: play.get(CLUSTER_ROLES, WORK_ROLE))
        await play.at_rest()
        assert not await play.get(NAMESPACES, "c1")
        assert not await play.get(CLUSTER_ROLES, ROLE)
        assert await play.condition("c1") == {}
        assert "finalizers" not in (await play.admin.get(MANAGED_CLUSTERS, "c1"))["metadata"]


@pytest.mark.parametrize("external", [False, True], ids=["by certificate", "by identity provider"])
async def test_an_agent_may_do_its_own_business_and_nobody_elses(play: Play, external: bool) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await accepted(play, "c2")
        agent = play.agent("c1", external=external)
        assert (await agent.get(MANAGED_CLUSTERS, "c1"))["metadata"]["name"] == "c1"
        await agent.list(LEASES, "c1")
        await agent.list(MANIFEST_WORKS, "c1")
        for resource, name in ((MANAGED_CLUSTERS, "c2"), (CLUSTER_ROLES, ROLE)):
            with pytest.raises(Forbidden):
                await agent.get(resource, name)
        for resource, namespace in ((MANIFEST_WORKS, "c2"), (LEASES, "c2"), (MANAGED_CLUSTERS, "")):
            with pytest.raises(Forbidden):
                await agent.list(resource, namespace)


async def test_what_is_edited_or_deleted_is_put_back(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        role = await play.admin.get(CLUSTER_ROLES, ROLE)
        await play.admin.patch(CLUSTER_ROLES, ROLE, {"rules": []})
        await play.admin.patch(CLUSTER_ROLE_BINDINGS, ROLE, {"subjects": []})
        await play.admin.delete(ROLE_BINDINGS, f"{ROLE}:registration", "c1")
        await play.admin.delete(ROLE_BINDINGS, f"{ROLE}:work", "c1")
        await play.admin.delete(CLUSTER_ROLES, REGISTRATION_ROLE)
        await play.admin.patch(CLUSTER_ROLES, WORK_ROLE, {"rules": []})

        async def healed() -> bool:
            found = [
                await play.get(CLUSTER_ROLES, ROLE),
                await play.get(CLUSTER_ROLE_BINDINGS, ROLE),
                await play.get(ROLE_BINDINGS, f"{ROLE}:registration", "c1"),
                await play.get(ROLE_BINDINGS, f"{ROLE}:work", "c1"),
                await play.get(CLUSTER_ROLES, REGISTRATION_ROLE),
                await play.get(CLUSTER_ROLES, WORK_ROLE),
            ]
            return all(one and (one.get("rules") or one.get("subjects")) for one in found) and not any(
                one["metadata"].get("deletionTimestamp") for one in found if one
            )

        await play.until(healed)
        assert (await play.admin.get(CLUSTER_ROLES, ROLE))["rules"] == role["rules"]
        await play.at_rest()
        assert (await play.condition("c1"))["status"] == "True"


async def test_a_cluster_at_rest_costs_no_request_and_joining_costs_no_request_twice(play: Play) -> None:
    async with play.running(Acceptance):
        await play.create_cluster("c0")
        await play.until(lambda: play.get(CLUSTER_ROLES, WORK_ROLE))
        await play.at_rest()
        play.hub_client.writes()
        await accepted(play)
        await play.at_rest()
        writes = play.hub_client.writes()
        # The finalizer, the namespace, a role and three bindings, the condition.
        assert len(writes) == 7, writes
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"status": {"version": {"kubernetes": "v1.35.0"}}}, subresource="status")
        await play.at_rest()
        assert play.hub_client.writes() == []
        assert play.driver.calls == [("grant", "c1")]


class SlowToTell(CountingClient):
    """Its watches of everything but ManagedClusters are late."""

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        async for line in super().lines(path, query, timeout, opened):
            if "managedclusters" not in path:
                await asyncio.sleep(0.1)
            yield line


async def test_a_watch_that_lags_does_not_make_the_hub_write_twice(play: Play) -> None:
    play.hub_client = play.as_hub(SlowToTell)
    async with play.running(Acceptance) as world:
        await world.context.informers.synced()
        await accepted(play)
        for number in range(5):
            changed = {"status": {"version": {"kubernetes": f"v{number}"}}}
            await play.admin.patch(MANAGED_CLUSTERS, "c1", changed, subresource="status")
            await play.at_rest()
        writes = play.hub_client.writes()
        # The two common roles besides.
        assert len(writes) == 9, writes


async def test_foreign_objects_of_our_names_are_adopted_with_exactly_our_permissions(play: Play) -> None:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    kind = "rbac.authorization.k8s.io"
    aggregated = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    role = {"metadata": {"name": ROLE}, "rules": [everything], "aggregationRule": aggregated}
    binding = {
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": kind, "name": "mallory"}],
    }
    await play.admin.create(NAMESPACES, {"metadata": {"name": "c1", "labels": {"mine": "yes"}}})
    await play.admin.create(CLUSTER_ROLES, role)
    await play.admin.create(CLUSTER_ROLE_BINDINGS, binding)
    async with play.running(Acceptance):
        await accepted(play)
        found = await play.admin.get(CLUSTER_ROLES, ROLE)
        assert len(found["rules"]) == 4
        assert everything not in found["rules"]
        assert "aggregationRule" not in found
        bound = await play.admin.get(CLUSTER_ROLE_BINDINGS, ROLE)
        assert bound["roleRef"]["name"] == ROLE
        assert all(subject["name"] != "mallory" for subject in bound["subjects"])
        labels = (await play.admin.get(NAMESPACES, "c1"))["metadata"]["labels"]
        assert labels.items() >= {CLUSTER_LABEL: "c1", "mine": "yes"}.items()


async def test_a_label_taken_off_comes_back(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await play.admin.patch(ROLE_BINDINGS, f"{ROLE}:work", {"metadata": {"labels": None}}, "c1")

        async def labelled() -> bool:
            found = await play.admin.get(ROLE_BINDINGS, f"{ROLE}:work", "c1")
            return bool(found["metadata"].get("labels"))

        await play.until(labelled)


async def test_a_drivers_problem_is_named_in_the_condition_and_heals_by_itself(play: Play) -> None:
    play.driver.outcome = lambda cluster: GrantResult((GrantStep("role", "throttled"), GrantStep("mapping")))
    async with play.running(Acceptance):
        await play.create_cluster("c1", accepts=True)
        condition = await play.until_condition("c1", "False", "Error")
        assert condition["message"] == "scripted: role: throttled"
        assert await play.get(ROLE_BINDINGS, f"{ROLE}:registration", "c1")
        play.driver.outcome = lambda cluster: GrantResult()
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")


class Busy(CountingClient):
    """Turns the first few bindings away."""

    turned_away = 0

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if method == "POST" and path.endswith("/rolebindings") and self.turned_away < 6:
            self.turned_away += 1
            raise TooManyRequests(429, "TooManyRequests", "later")
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


async def test_a_busy_server_is_no_news_about_a_cluster(play: Play) -> None:
    play.hub_client = client = play.as_hub(Busy)
    async with play.running(Acceptance):
        await accepted(play)
        await play.at_rest()
        assert client.turned_away == 6
        assert len([path for _, path in client.writes() if path.endswith("/status")]) == 1


async def test_a_driver_that_breaks_on_a_malformed_annotation_harms_that_cluster_alone(play: Play) -> None:
    def parse(cluster: object) -> GrantResult:
        annotations = cluster.metadata.annotations  # type: ignore[attr-defined]
        return GrantResult((GrantStep(annotations["arn"].split(":")[5]),)) if annotations else GrantResult()

    play.driver.outcome = parse
    async with play.running(Acceptance):
        await play.create_cluster("c1", accepts=True, annotations={"arn": "nonsense"})
        await accepted(play, "c2")
        condition = await play.until_condition("c1", "False", "Error")
        assert "IndexError" in condition["message"]


async def test_a_cluster_that_was_let_in_under_a_name_that_is_reserved_now_stays(play: Play) -> None:
    async with play.running(Acceptance):
        await play.create_cluster("kube-x", accepts=True, finalizers=[RESOURCE_CLEANUP])
        await play.until_condition("kube-x", "True", "HubClusterAdminAccepted")
        await play.deny("kube-x")
        await play.until_condition("kube-x", "False", "HubClusterAdminDenied")


@pytest.mark.parametrize(
    "name", ["work", "registration", "managed-clusters", "kube-system", "open-cluster-management-hub", "a.b", "default", "kube-x"]
)
async def test_a_cluster_whose_name_is_the_hubs_own_is_refused_and_nothing_is_made(play: Play, name: str) -> None:
    async with play.running(Acceptance):
        await play.create_cluster(name, accepts=True)
        condition = await play.until_condition(name, "False", "Error")
        assert "cannot name a cluster" in condition["message"]
        await play.at_rest()
        assert not await play.get(CLUSTER_ROLE_BINDINGS, f"open-cluster-management:managedcluster:{name}")
        assert len((await play.admin.get(CLUSTER_ROLES, WORK_ROLE))["rules"]) == 3
        await play.deny(name)
        await play.admin.delete(MANAGED_CLUSTERS, name)
        await play.until_gone(MANAGED_CLUSTERS, name)


async def test_a_namespace_deleted_by_hand_is_made_again_once_its_works_are_gone(play: Play) -> None:
    async with play.running(Acceptance):
        await accepted(play)
        await play.create_work("c1", "w", held=True)
        await play.admin.delete(NAMESPACES, "c1")
        condition = await play.until_condition("c1", "False", "Error")
        assert "being deleted" in condition["message"]
        # The agent can still finish its work.
        await play.agent("c1").patch(MANIFEST_WORKS, "w", {"metadata": {"finalizers": None}}, "c1")
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        assert await play.get(ROLE_BINDINGS, f"{ROLE}:work", "c1")


async def test_common_roles_live_as_long_as_any_cluster(play: Play) -> None:
    async with play.running(Acceptance):
        await play.create_cluster("c1")
        await play.create_cluster("c2")
        await play.until(lambda: play.get(CLUSTER_ROLES, REGISTRATION_ROLE))
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.at_rest()
        assert await play.get(CLUSTER_ROLES, REGISTRATION_ROLE)
        await play.admin.delete(MANAGED_CLUSTERS, "c2")
        await play.until_gone(CLUSTER_ROLES, REGISTRATION_ROLE)
        await play.until_gone(CLUSTER_ROLES, WORK_ROLE)
