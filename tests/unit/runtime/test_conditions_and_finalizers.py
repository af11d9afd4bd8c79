"""Conditions and finalizers are written as what differs, for the version read, and as nothing when nothing does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from muster.api import Condition
from muster.api.cluster.v1 import ManagedCluster, ManagedClusterSpec
from muster.api.crds import HUB, definitions
from muster.api.resource import ObjectMeta
from muster.fleet.in_process import InProcessClient
from muster.runtime.client.builtin import CRDS
from muster.runtime.client.errors import Conflict, NotFound
from muster.runtime.controller.conditions import set_condition, with_condition
from muster.runtime.controller.finalizers import add_finalizer, has_finalizer, removal_patch, remove_finalizer, with_finalizer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
OURS, THEIRS = "example.com/ours", "example.com/theirs"


def ready(status: str = "True", message: str = "", generation: int = 0) -> Condition:
    return Condition(type="Ready", status=status, reason="Tested", message=message, observed_generation=generation)


@pytest.fixture
async def cluster(client: InProcessClient) -> ManagedCluster:
    (definition,) = (one for one in definitions(HUB) if one["spec"]["names"]["kind"] == "ManagedCluster")
    await client.create(CRDS, definition)
    made = ManagedCluster(metadata=ObjectMeta(name="c1"), spec=ManagedClusterSpec(hub_accepts_client=False))
    async with asyncio.timeout(30):
        while True:
            try:
                return await client.create(ManagedCluster, made)
            except NotFound:
                await asyncio.sleep(0.01)


def test_a_condition_is_dated_by_the_change_of_its_status() -> None:
    first = with_condition(ManagedCluster(), ready(), NOW)
    again = with_condition(first, ready(message="still", generation=2), LATER)
    (one,) = again.status.conditions
    assert (one.message, one.observed_generation, one.last_transition_time) == ("still", 2, "2026-01-01T00:00:00Z")
    (other,) = with_condition(again, ready("False"), LATER).status.conditions
    assert other.last_transition_time == "2026-01-01T00:05:00Z"


async def test_a_condition_that_is_there_already_costs_no_write(client: InProcessClient, cluster: ManagedCluster) -> None:
    assert await set_condition(client, cluster, ready(), NOW)
    found = await client.get(ManagedCluster, "c1")
    assert [(one.type, one.status) for one in found.status.conditions] == [("Ready", "True")]
    assert not await set_condition(client, found, ready(), LATER)
    assert (await client.get(ManagedCluster, "c1")).metadata.resource_version == found.metadata.resource_version


async def test_a_condition_from_an_old_version_is_a_conflict_and_of_what_is_gone_nothing(
    client: InProcessClient, cluster: ManagedCluster
) -> None:
    await client.patch(ManagedCluster, "c1", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        await set_condition(client, cluster, ready(), NOW)
    await client.delete(ManagedCluster, "c1")
    assert not await set_condition(client, cluster, ready(), NOW)


async def test_finalizers_of_others_stay_as_they_are(client: InProcessClient, cluster: ManagedCluster) -> None:
    theirs = ManagedCluster.decode(await add_finalizer(client, cluster, THEIRS) or {})
    both = ManagedCluster.decode(await add_finalizer(client, theirs, OURS) or {})
    assert both.metadata.finalizers == (THEIRS, OURS)
    assert has_finalizer(both, OURS)
    assert await add_finalizer(client, both, OURS) is None
    with pytest.raises(Conflict):
        await remove_finalizer(client, with_finalizer(theirs, OURS), OURS)
    left = ManagedCluster.decode(await remove_finalizer(client, both, OURS) or {})
    assert left.metadata.finalizers == (THEIRS,)
    assert await remove_finalizer(client, left, OURS) is None


def test_of_a_document_the_patch_holds_for_the_version_read() -> None:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "5", "finalizers": [THEIRS, OURS]}
    patch = removal_patch({"metadata": metadata}, OURS)
    assert patch == {"metadata": {"uid": "u", "resourceVersion": "5", "finalizers": [THEIRS]}}
    assert removal_patch({"metadata": {**metadata, "finalizers": None}}, OURS) is None
