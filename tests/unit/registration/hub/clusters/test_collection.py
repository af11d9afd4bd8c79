"""What a deleted cluster leaves goes in order, and the condition tells how far it is."""

from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.registration.hub.clusters.collection import Collection, next_to_go, parse_resource, priority
from muster.registration.kinds import ADDONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import CLEANUP_PRIORITY, COLLECTION_CLEANUP
from muster.runtime.client.builtin import CRDS
from muster.runtime.client.errors import Forbidden
from muster.runtime.client.rest import JSON, Query
from tests.unit.registration.hub.conftest import CountingClient, Play


def obj(name: str, priority: str | None = None, **metadata: Any) -> Object:
    annotations = {} if priority is None else {CLEANUP_PRIORITY: priority}
    return {"metadata": {"name": name, "annotations": annotations, **metadata}}


async def create_addon(play: Play, cluster: str, name: str, *, held: bool = False) -> None:
    metadata = {"name": name, "namespace": cluster, "finalizers": ["test/held"] if held else []}
    body = {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind, "metadata": metadata, "spec": {}}
    await play.admin.create(ADDONS, body)


async def marked(play: Play) -> list[str]:
    """The works on their way out."""
    works = (await play.admin.list(MANIFEST_WORKS, "c1")).items
    return sorted(work["metadata"]["name"] for work in works if "deletionTimestamp" in work["metadata"])


async def held(play: Play, name: str = "c1") -> bool:
    return COLLECTION_CLEANUP in (await play.admin.get(MANAGED_CLUSTERS, name))["metadata"].get("finalizers", [])


@pytest.mark.parametrize(
    ("text", "number"), [(None, 0), ("", 0), ("20", 20), ("100", 100), ("101", 0), ("-1", 0), ("high", 0), ("1e1", 0), ("+7", 7)]
)
def test_a_priority_that_is_none_counts_as_the_first(text: str | None, number: int) -> None:
    assert priority(obj("a", text)) == number


def test_of_what_is_left_only_the_lowest_priority_goes_and_nothing_twice() -> None:
    going = obj("b", "20", deletionTimestamp="2026-01-01T00:00:00Z")
    assert [one["metadata"]["name"] for one in next_to_go([obj("a", "100"), going, obj("c", "20")])] == ["c"]
    assert next_to_go([obj("a", "100"), going]) == []


def test_a_resource_is_named_by_group_version_and_plural() -> None:
    assert parse_resource("work.open-cluster-management.io/v1/manifestworks").api_version == "work.open-cluster-management.io/v1"
    assert parse_resource("v1/configmaps").path("c1") == "/api/v1/namespaces/c1/configmaps"
    for nonsense in ("configmaps", "", "a/b/c/d", "/v1/things", "g/v1/"):
        with pytest.raises(ValueError, match="expected group/version/plural"):
            parse_resource(nonsense)


async def test_every_cluster_is_held_until_its_namespace_is_empty(play: Play) -> None:
    async with play.running(Collection):
        await play.create_cluster("c1", finalizers=["test/last"])
        await play.until(lambda: held(play))
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        condition = await play.until_condition("c1", "True", "NoResource", "Deleting")
        assert condition["message"] == "No cleaned resource in cluster ns."

        async def let_go() -> bool:
            return not await held(play)

        await play.until(let_go)
        await play.let_go(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_a_work_made_after_the_collection_does_not_stay(play: Play) -> None:
    async with play.running(Collection):
        await play.create_cluster("c1", finalizers=["test/last"])
        await play.until(lambda: held(play))
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_condition("c1", "True", "NoResource", "Deleting")
        await play.at_rest()
        await play.create_work("c1", "late")
        await play.until_gone(MANIFEST_WORKS, "late", "c1")
        await play.until_condition("c1", "True", "NoResource", "Deleting")


async def test_works_wait_for_addons(play: Play) -> None:
    async with play.running(Collection):
        await play.create_cluster("c1")
        await play.until(lambda: held(play))
        await play.create_work("c1", "w", held=True)
        await create_addon(play, "c1", "a", held=True)
        await create_addon(play, "c1", "b")
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        condition = await play.until_condition("c1", "False", "ResourceRemaining", "Deleting")
        assert condition["message"] == (
            "The resource managedclusteraddons is remaning, the remaining count is 2, the finalizer pending count is 1"
        )
        await play.until_gone(ADDONS, "b", "c1")
        await play.at_rest()
        assert await marked(play) == []
        await play.let_go(ADDONS, "a", "c1")

        async def works() -> bool:
            return await marked(play) == ["w"]

        await play.until(works)
        await play.let_go(MANIFEST_WORKS, "w", "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_works_go_by_priority(play: Play) -> None:
    async with play.running(Collection):
        await play.create_cluster("c1")
        await play.until(lambda: held(play))
        for name, number in (("last", "100"), ("middle", "20"), ("first", ""), ("odd", "soon")):
            await play.create_work("c1", name, held=True, annotations={CLEANUP_PRIORITY: number})
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        for group in (["first", "odd"], ["middle"], ["last"]):

            async def its_turn(group: list[str] = group) -> bool:
                return await marked(play) == group

            await play.until(its_turn)
            await play.at_rest()
            assert await marked(play) == group
            for name in group:
                await play.let_go(MANIFEST_WORKS, name, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_while_works_remain_nothing_is_polled(play: Play) -> None:
    async with play.running(Collection):
        await play.create_cluster("c1")
        await play.until(lambda: held(play))
        await play.create_work("c1", "w", held=True)
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_condition("c1", "False", "ResourceRemaining", "Deleting")
        await play.clock.advance(6)
        await play.at_rest()
        before = len(play.hub_client.requests)
        await play.clock.advance(120)
        await play.at_rest()
        assert len(play.hub_client.requests) == before
        await play.let_go(MANIFEST_WORKS, "w", "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_many_works_going_one_by_one_do_not_mean_as_many_words(play: Play) -> None:
    async with play.running(Collection):
        await play.create_cluster("c1")
        await play.until(lambda: held(play))
        for number in range(30):
            await play.create_work("c1", f"w{number}", held=True)
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_condition("c1", "False", "ResourceRemaining", "Deleting")
        play.hub_client.writes()
        for number in range(30):
            await play.let_go(MANIFEST_WORKS, f"w{number}", "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
        words = [path for method, path in play.hub_client.writes() if path.endswith("/status")]
        assert len(words) <= 2, words


class Refusing(CountingClient):
    refused = True

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if self.refused and method == "DELETE" and path.endswith("/manifestworks/w"):
            raise Forbidden(403, "Forbidden", "a policy forbids it")
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


async def test_what_cannot_be_deleted_is_named_and_tried_again(play: Play) -> None:
    play.hub_client = client = play.as_hub(Refusing)
    async with play.running(Collection):
        await play.create_cluster("c1")
        await play.until(lambda: held(play))
        await play.create_work("c1", "w")
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        condition = await play.until_condition("c1", "False", "DeletingError", "Deleting")
        assert "w: a policy forbids it" in condition["message"]
        client.refused = False
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_works_of_a_cluster_whose_finalizers_were_taken_off_are_collected_too(play: Play) -> None:
    async with play.running(Collection):
        await play.create_cluster("c1")
        await play.until(lambda: held(play))
        await play.create_work("c1", "w1")
        await play.create_work("c1", "w2", annotations={CLEANUP_PRIORITY: "7"})
        await play.let_go(MANAGED_CLUSTERS, "c1")
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANIFEST_WORKS, "w2", "c1")
        await play.until_gone(MANIFEST_WORKS, "w1", "c1")


async def test_a_kind_that_the_hub_does_not_have_is_empty(play: Play) -> None:
    await play.admin.delete(CRDS, "managedclusteraddons.addon.open-cluster-management.io")
    await play.until_gone(CRDS, "managedclusteraddons.addon.open-cluster-management.io")
    async with play.running(Collection):
        await play.create_cluster("c1")
        await play.until(lambda: held(play))
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
