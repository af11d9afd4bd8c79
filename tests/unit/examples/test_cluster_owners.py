"""The example of docs/python.md, on the embedded server: what its readers copy works."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from examples.cluster_owners import manager_of

from muster.api import ObjectMeta, condition_of
from muster.api.cluster.v1 import ManagedCluster
from muster.api.crds import HUB
from muster.fleet.in_process import InProcessClient, embedded_cluster
from muster.runtime.controller import ControllerContext, LeaderElection

SOURCE = Path(__file__).parents[3] / "examples" / "cluster_owners.py"


@pytest.fixture
async def client() -> AsyncIterator[InProcessClient]:
    async with embedded_cluster(HUB[:1]) as cluster:
        yield cluster


async def owner_known(client: InProcessClient, expected: Callable[[str, str], bool]) -> None:
    """Until the condition is as expected."""
    async with asyncio.timeout(30):
        while True:
            cluster = await client.get(ManagedCluster, "cluster1")
            found = condition_of(cluster.status.conditions, "OwnerKnown")
            if found is not None and expected(found.status, found.message):
                return
            await asyncio.sleep(0.01)


async def test_the_condition_follows_the_label(client: InProcessClient) -> None:
    election = LeaderElection(client, "cluster-owners", "default", "test")
    manager = manager_of(ControllerContext.of(client, "cluster-owners"))
    running = asyncio.create_task(manager.run(election))
    try:
        await client.create(ManagedCluster, ManagedCluster(metadata=ObjectMeta(name="cluster1")))
        await owner_known(client, lambda status, message: status == "False")
        await client.patch(ManagedCluster, "cluster1", {"metadata": {"labels": {"owner": "team-a"}}})
        await owner_known(client, lambda status, message: (status, message) == ("True", "team-a owns it"))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_the_page_shows_it_whole() -> None:
    page = SOURCE.parents[1] / "docs" / "python.md"
    assert SOURCE.read_text() in page.read_text()


def test_it_is_shorter_than_sixty_lines() -> None:
    assert len(SOURCE.read_text().splitlines()) < 60
