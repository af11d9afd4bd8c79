"""Objects are applied once, repaired when they drift, and removed in order without waiting."""

from __future__ import annotations

import pytest

from muster.api.crds import SPOKE, definitions
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.operator.applier import TOUCHED, Applier, ApplyFailed, ObjectRef, checked, labelled, remove, remove_and_wait
from muster.operator.deployments import rollout
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES, SERVICE_ACCOUNTS
from tests.support.fake_clock import FakeClock
from tests.unit.operator import conftest

Cluster = conftest.Cluster


def config(name: str, value: str = "1", namespace: str = "default") -> tuple[GVR, Object]:
    return CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace}, "data": {"key": value}}


class Remembered:
    """A cache that the test fills."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, Object] = {}

    def __call__(self, resource: GVR, key: ObjectKey) -> Object | None:
        return self.objects.get(key)


@pytest.fixture
def client(here: Cluster) -> conftest.CountingClient:
    return conftest.CountingClient(here.server.client(here.server.clusters[here.name]))


async def test_what_is_there_and_unchanged_is_not_sent_again(client: conftest.CountingClient) -> None:
    cache = Remembered()
    applier = Applier(client, "test", cache)
    (made,) = checked(await applier.apply([config("one")]))
    cache.objects[ObjectKey("default", "one")] = made
    client.taken()
    await applier.apply([config("one")])
    assert client.taken() == []


@pytest.mark.parametrize("change", [{"data": {"key": "2"}}, {"data": {"extra": "x"}}, {"metadata": {"labels": {"a": "b"}}}])
async def test_any_drift_and_any_wish_is_sent(client: conftest.CountingClient, change: Object) -> None:
    cache = Remembered()
    applier = Applier(client, "test", cache)
    checked(await applier.apply([config("one")]))
    cache.objects[ObjectKey("default", "one")] = await client.patch(CONFIG_MAPS, "one", change, "default")
    client.taken()
    (now,) = checked(await applier.apply([config("one")]))
    assert client.taken()
    assert now["data"]["key"] == "1"
    client.taken()
    checked(await applier.apply([config("one", "3")]))
    assert client.taken()


async def test_a_failure_stops_nothing_and_is_told_with_its_object(client: conftest.CountingClient) -> None:
    outcomes = await Applier(client, "test").apply([config("one", namespace="nowhere"), config("two")])
    assert [one.error is None for one in outcomes] == [False, True]
    with pytest.raises(ApplyFailed, match="ConfigMap nowhere/one"):
        checked(outcomes)


async def test_removal_in_order_stops_at_what_remains(client: conftest.CountingClient) -> None:
    held = config("held")
    held[1]["metadata"]["finalizers"] = ["example.com/held"]
    checked(await Applier(client, "test").apply([config("first"), held, config("last")]))
    objects = [ObjectRef(CONFIG_MAPS, name, "default") for name in ("missing", "first", "held", "last")]
    assert await remove(client, objects, in_order=True) == [objects[2]]
    assert await client.get(CONFIG_MAPS, "last", "default")
    assert await remove(client, objects) == [objects[2]]
    await client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, "default")
    assert await remove_and_wait(client, objects, within=5, in_order=True) == []


async def test_waiting_for_removal_ends(client: conftest.CountingClient) -> None:
    held = config("held")
    held[1]["metadata"]["finalizers"] = ["example.com/held"]
    checked(await Applier(client, "test").apply([held]))
    place = ObjectRef(CONFIG_MAPS, "held", "default")
    assert await remove_and_wait(client, [place], within=0.1) == [place]


async def test_a_definition_that_the_server_failed_to_empty_is_touched_once_a_second(client: conftest.CountingClient) -> None:
    definition = definitions(SPOKE[:1])[0]
    definition["metadata"]["finalizers"] = ["example.com/held"]
    await client.apply(CRDS, definition, manager="test")
    place, clock = ObjectRef(CRDS, definition["metadata"]["name"]), FakeClock()
    assert await remove(client, [place], clock=clock) == [place]
    assert await touched(client, place) == ""
    condition = {"type": "Terminating", "status": "True", "reason": "InstanceDeletionFailed", "message": "m"}
    conditions = [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    await client.patch(CRDS, place.name, {"status": {"conditions": conditions}}, subresource="status")
    await remove(client, [place], clock=clock)
    first = await touched(client, place)
    assert first
    client.taken()
    await remove(client, [place], clock=clock)
    assert [verb for verb, _ in client.taken()] == ["GET"]
    await clock.advance(2)
    await client.patch(CRDS, place.name, {"status": {"conditions": conditions}}, subresource="status")
    await remove(client, [place], clock=clock)
    assert await touched(client, place) > first


async def touched(client: conftest.CountingClient, place: ObjectRef) -> str:
    found = await client.get(place.resource, place.name)
    return str((found["metadata"].get("annotations") or {}).get(TOUCHED, ""))


async def test_what_is_claimed_is_kept(client: conftest.CountingClient) -> None:
    checked(await Applier(client, "test").apply(labelled([config("one")], {"owner": "other"})))
    place = ObjectRef(CONFIG_MAPS, "one", "default")
    assert await remove(client, [place], keep=lambda obj: obj["metadata"]["labels"]["owner"] == "other") == []
    assert await client.get(CONFIG_MAPS, "one", "default")


def test_labels_are_added_beside_others() -> None:
    document = {"metadata": {"name": "a", "labels": {"own": "1"}}}
    ((_, made),) = labelled([(SERVICE_ACCOUNTS, document)], {"owner": "x"})
    assert made["metadata"]["labels"] == {"own": "1", "owner": "x"}
    assert document["metadata"]["labels"] == {"own": "1"}
    assert str(ObjectRef(NAMESPACES, "a")) == "Namespace a"


@pytest.mark.parametrize(
    ("status", "functional", "complete"),
    [
        ({}, False, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True, True),
        ({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True, False),
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}, True, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, False, False),
    ],
)
def test_a_rollout_is_complete_when_only_the_newest_runs(status: Object, functional: bool, complete: bool) -> None:
    found = rollout({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status})
    assert (found.functional, found.complete) == (functional, complete)
