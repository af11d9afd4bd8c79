"""A controller may die before or after any of its writes: the next one ends where it would have, and nobody is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.support.choosing import DECISIONS, GROUP, NS, labelled
from tests.unit.placement.hub.conftest import Life, Site

MOST = 12
"""Writes that no scenario needs."""
SELECTOR = {"labelSelector": {"matchLabels": {"canary": "1"}}}
STRATEGY = {
    "groupStrategy": {"decisionGroups": [{"groupName": "canary", "groupClusterSelector": SELECTOR}], "clustersPerDecisionGroup": 2}
}


async def start(site: Site, name: str) -> None:
    await site.place(
        name,
        predicates=labelled(team=name),
        decisionStrategy=STRATEGY,
    )


async def fill(site: Site, name: str) -> None:
    for cluster in "abcd":
        await site.cluster(f"{name}-{cluster}", **{"team": name, **({"canary": "1"} if cluster in "ab" else {})})


async def swap(site: Site, name: str) -> None:
    """Clusters of both groups change places, one goes and one comes."""
    await site.change_cluster(f"{name}-a", canary=None)
    await site.change_cluster(f"{name}-c", canary="1")
    await site.cluster(f"{name}-e", team=name)
    await site.change_cluster(f"{name}-d", team=None)


async def has(site: Site, name: str, *groups: str) -> bool:
    wanted = {f"{name}-decision-{number}": [f"{name}-{cluster}" for cluster in group] for number, group in enumerate(groups, 1)}
    found = await site.find_status(name)
    return await site.decisions(name) == wanted and found.get("numberOfSelectedClusters") == sum(map(len, groups))


Act = Callable[[Site, str], Awaitable[None]]


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    ("act", "before", "after"),
    [(None, ("ab", "cd"), ("ab", "cd")), (swap, ("ab", "cd"), ("bc", "ae"))],
    ids=["first choice", "everything moves"],
)
async def test_dying_at_any_write(
    bare: Site, early: bool, act: Act | None, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    deaths = 0
    for writes in range(MOST):
        name = f"w{writes}"
        await fill(bare, name)
        await start(bare, name)
        if act is not None:
            async with bare.controller():
                await bare.until(partial(has, bare, name, *before), "the first choice")
            await act(bare, name)
        staying = {f"{name}-{one}" for one in set("".join(before)) & set("".join(after))} if act else set[str]()
        async with bare.controller(Life(writes, before=early)) as life:

            async def over_or_done(life: Life = life, name: str = name) -> bool:
                return life.over.is_set() or await has(bare, name, *after)

            await bare.until(over_or_done, "the controller to die or to be done")
            died = life.over.is_set()
        assert staying <= set(await bare.chosen(name)), "a cluster that stays chosen is missing"
        async with bare.controller():
            await bare.until(partial(has, bare, name, *after), f"the end of {name}")
        labels = [(await bare.admin.get(DECISIONS, f"{name}-decision-1", NS))["metadata"]["labels"][f"{GROUP}/decision-group-name"]]
        assert labels == ["canary"]
        if not died:
            break
        deaths += 1
    else:
        raise AssertionError(f"no controller should need {MOST} writes")
    assert deaths >= 3
