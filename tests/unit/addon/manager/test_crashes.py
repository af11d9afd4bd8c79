"""The manager may die before or after any of its writes: the next one ends where it would have, and nobody loses an addon that is
wanted."""

from __future__ import annotations

from functools import partial

import pytest

from muster.machinery.objects import Object
from tests.support.addon_world import GROUP, by_placement, deployment_config
from tests.support.choosing import CLUSTERS
from tests.unit.addon.manager.conftest import MANAGED, Life, Site

MOST = 16
"""Writes that no scenario needs."""
HOSTING = f"{GROUP}/hosting-cluster-name"


async def begin(site: Site, name: str) -> None:
    await site.managed_cluster(*(f"{name}-{cluster}" for cluster in "abc"), **{HOSTING: "h1"})
    await site.deployment_config(name)
    await site.decide(name, f"{name}-a", f"{name}-b")
    await site.offer(by_placement(name, deployment_config(name)), name=name)


async def change(site: Site, name: str) -> None:
    """One cluster comes, one goes, the one that stays has another annotation and the configuration another state."""
    await site.decide(name, f"{name}-b", f"{name}-c")
    await site.admin.patch(CLUSTERS, f"{name}-b", {"metadata": {"annotations": {HOSTING: "h2"}}})
    await site.deployment_config(name, "2")


async def is_so(site: Site, name: str, hosts: dict[str, str]) -> bool:
    found = await site.installed(name)
    seen = {cluster.removeprefix(f"{name}-"): one["metadata"]["annotations"][HOSTING] for cluster, one in found.items()}
    owned = all(len(one["metadata"]["ownerReferences"]) == 1 for one in found.values())
    progressions = (await site.status(name)).get("installProgressions") or []
    if seen != hosts or not owned or not progressions:
        return False
    (reference,) = progressions[0]["configReferences"]
    planned = site.planned(f"{name}-b", name)
    wanted = planned.configs[0].config.spec_hash if planned else ""
    message: str = progressions[0]["conditions"][0]["message"]
    return bool(wanted) and reference["desiredConfig"]["specHash"] == wanted and "configured addons 2/2 progressing" in message


async def uid_of(site: Site, name: str) -> str:
    found: Object = await site.admin.get(MANAGED, name, f"{name}-b")
    return str(found["metadata"]["uid"])


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("changed", [False, True], ids=["first installation", "everything changes"])
async def test_dying_at_any_write(bare: Site, early: bool, changed: bool) -> None:
    deaths = 0
    before, after = {"a": "h1", "b": "h1"}, {"b": "h2", "c": "h1"}
    for writes in range(MOST):
        name = f"w{writes}"
        await begin(bare, name)
        staying = ""
        if changed:
            async with bare.manager():
                await bare.until(partial(is_so, bare, name, before), "the first installation")
            staying = await uid_of(bare, name)
            await change(bare, name)
        end = after if changed else before
        async with bare.manager(Life(writes, before=early)) as life:

            async def over_or_done(life: Life = life, name: str = name, end: dict[str, str] = end) -> bool:
                return life.over.is_set() or await is_so(bare, name, end)

            await bare.until(over_or_done, "the manager to die or to be done")
            died = life.over.is_set()
        async with bare.manager():
            await bare.until(partial(is_so, bare, name, end), f"the end of {name}")
        if changed:
            assert await uid_of(bare, name) == staying, "an addon that is wanted all the time was taken away"
        if not died:
            break
        deaths += 1
    else:
        raise AssertionError(f"no manager should need {MOST} writes")
    assert deaths >= 3
