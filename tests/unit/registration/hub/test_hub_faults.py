"""A hub that is cut off, restarted or told conflicting things at any moment still ends where it should."""

import asyncio
import random
from functools import partial

import pytest

from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.clusters.collection import Collection
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import COLLECTION_CLEANUP, RESOURCE_CLEANUP
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from muster.runtime.client.errors import Unreachable
from muster.runtime.client.rest import JSON, Query
from tests.unit.registration.hub.conftest import CountingClient, Play


class Unreliable(CountingClient):
    """Loses some requests on the way there and some answers on the way back."""

    dice = random.Random(0)
    trouble = 0.0

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        lost = self.dice.random()
        await asyncio.sleep(0)
        if lost < self.trouble / 2:
            raise Unreachable(self.server, "the request was lost", sent=False)
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        if lost < self.trouble:
            raise Unreachable(self.server, "the answer was lost")
        return answer


async def permissions(play: Play, name: str) -> tuple[bool, ...]:
    role = f"open-cluster-management:managedcluster:{name}"
    found = await play.get(CLUSTER_ROLES, role)
    rest = (
        await play.get(CLUSTER_ROLE_BINDINGS, role),
        await play.get(ROLE_BINDINGS, f"{role}:registration", name),
        await play.get(ROLE_BINDINGS, f"{role}:work", name),
    )
    return (bool(found) and len(found["rules"]) == 4, *(bool(one) for one in rest))  # type: ignore[index]


async def held(play: Play, name: str) -> bool:
    return COLLECTION_CLEANUP in (await play.admin.get(MANAGED_CLUSTERS, name))["metadata"].get("finalizers", [])


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_is_lost_on_the_way_clusters_end_as_they_were_told(play: Play, seed: int) -> None:
    play.hub_client = client = play.as_hub(Unreliable)
    client.dice = dice = random.Random(seed)
    names = [f"c{number}" for number in range(4)]
    wanted: dict[str, str] = {}
    async with play.running(Collection):
        # One that goes before it is held takes nothing with it.
        for name in names:
            await play.create_cluster(name)
            await play.until(partial(held, play, name))
    client.trouble = 0.3
    for _ in range(4):
        async with play.running(Acceptance, Collection):
            for _ in range(6):
                name, word = dice.choice(names), dice.choice(["accept", "deny", "delete"])
                if wanted.get(name) == "delete":
                    continue
                wanted[name] = word
                if word == "delete":
                    await play.create_work(name, "w")
                    await play.admin.delete(MANAGED_CLUSTERS, name)
                else:
                    await play.accept(name, word == "accept")
                for _ in range(dice.randrange(20)):
                    await asyncio.sleep(0.001)
                await play.clock.advance(dice.random())
    client.trouble = 0.0
    async with play.running(Acceptance, Collection):
        for name, word in wanted.items():
            if word == "delete":
                await play.until_gone(MANAGED_CLUSTERS, name)
                await play.until_gone(MANIFEST_WORKS, "w", name)
            elif word == "accept":
                await play.until_condition(name, "True", "HubClusterAdminAccepted")
        expected = {"delete": (False,) * 4, "accept": (True,) * 4}

        async def settled() -> bool:
            for name, word in wanted.items():
                present = await permissions(play, name)
                # A cluster that was denied before any hub saw it accepted has nothing at all.
                fits = present[0] is present[2] is present[3] is False if word == "deny" else present == expected[word]
                if not fits:
                    return False
            return True

        await play.until(settled)
        for name, word in wanted.items():
            if word == "accept":
                metadata = (await play.admin.get(MANAGED_CLUSTERS, name))["metadata"]
                assert set(metadata["finalizers"]) == {RESOURCE_CLEANUP, COLLECTION_CLEANUP}


async def test_many_clusters_accepted_at_once_cost_seven_requests_each(play: Play) -> None:
    count = 200
    for number in range(count):
        await play.create_cluster(f"c{number}", accepts=True)
    async with play.running(Acceptance):
        await play.until_condition(f"c{count - 1}", "True", "HubClusterAdminAccepted")
        await play.at_rest()
        writes = play.hub_client.writes()
        # And the two roles they share.
        assert len(writes) == 7 * count + 2
