"""A cluster carries the one taint that fits its availability, beside those of others."""

import pytest

from muster.api.cluster.v1 import AVAILABLE, ManagedCluster, Taint
from muster.registration.hub.health.taints import Taints, tainted, wanted_taint
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import UNAVAILABLE_TAINT, UNREACHABLE_TAINT
from tests.unit.registration.hub.conftest import Play
from tests.unit.registration.hub.watched import Watched

FOREIGN = Taint(key="example.com/own", effect="NoSelectIfNew", time_added="2026-01-01T00:00:00Z")
UNREACHABLE = Taint(key=UNREACHABLE_TAINT, effect="NoSelect")
UNAVAILABLE = Taint(key=UNAVAILABLE_TAINT, effect="NoSelect")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(None, UNREACHABLE_TAINT), ("Unknown", UNREACHABLE_TAINT), ("False", UNAVAILABLE_TAINT), ("True", "")],
)
def test_the_taint_follows_availability(status: str | None, expected: str) -> None:
    condition = {"type": AVAILABLE, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [condition] if status else []
    cluster = ManagedCluster.decode({"metadata": {"name": "c1"}, "status": {"conditions": conditions}})
    assert wanted_taint(cluster) == expected


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ((), UNREACHABLE_TAINT, (UNREACHABLE,)),
        ((FOREIGN,), UNREACHABLE_TAINT, (FOREIGN, UNREACHABLE)),
        ((UNREACHABLE, FOREIGN), UNAVAILABLE_TAINT, (FOREIGN, UNAVAILABLE)),
        ((UNREACHABLE, UNAVAILABLE), UNREACHABLE_TAINT, (UNREACHABLE,)),
        ((UNREACHABLE, FOREIGN, UNAVAILABLE), "", (FOREIGN,)),
    ],
)
def test_exactly_one_of_ours_or_none_and_all_of_others(before: tuple[Taint, ...], wanted: str, after: tuple[Taint, ...]) -> None:
    assert tainted(before, wanted) == after
    assert tainted(after, wanted) == after


async def test_a_new_cluster_is_unreachable_until_it_answers(play: Play) -> None:
    cluster = Watched(play)

    async def taints() -> list[str]:
        found = await play.admin.get(MANAGED_CLUSTERS, "c1")
        return [taint["key"] for taint in found["spec"].get("taints") or []]

    async with play.running(Taints):
        await play.create_cluster("c1")
        assert await play.until(taints) == [UNREACHABLE_TAINT]
        await cluster.report(**{AVAILABLE: "True"})

        async def untainted() -> bool:
            return await taints() == []

        await play.until(untainted)
        await cluster.report(**{AVAILABLE: "False"})
        assert await play.until(taints) == [UNAVAILABLE_TAINT]
        await play.at_rest()
        play.hub_client.writes()
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {"a": "b"}}})
        await play.at_rest()
        assert play.hub_client.writes() == []


async def test_a_taint_of_others_keeps_what_it_says(play: Play) -> None:
    async with play.running(Taints):
        await play.create_cluster("c1")
        taint = {"key": "example.com/own", "effect": "NoSelect", "value": "v", "timeAdded": "2025-05-05T05:05:05Z"}
        await play.at_rest()
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"taints": [taint]}})

        async def both() -> list[object] | None:
            found = (await play.admin.get(MANAGED_CLUSTERS, "c1"))["spec"]["taints"]
            return found if len(found) == 2 else None

        assert (await play.until(both))[0] == taint


async def test_a_cluster_that_goes_is_left_alone(play: Play) -> None:
    await play.create_cluster("c1", finalizers=["example.com/held"])
    await play.admin.delete(MANAGED_CLUSTERS, "c1")
    async with play.running(Taints):
        await play.at_rest()
        assert play.hub_client.writes() == []
