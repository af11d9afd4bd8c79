"""A controller may die before or after any of its writes: the next one comes to the same end, and does nothing twice that shows.

A controller is let live for one write more each time, until it needs no more to reach its goal; then another has to reach it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.mortal_hub import Life
from tests.support.policy_site import CLUSTER, POLICIES, PolicySite, config_map, policy, template

MOST = 30
"""Writes that no scenario needs."""

Act = Callable[[PolicySite, str], Awaitable[Any]]
Check = Callable[[PolicySite, str], Awaitable[Any]]


async def die_everywhere(site: PolicySite, before: Act | None, settled: Check, act: Act, goal: Check) -> int:
    """Names are of each death's own, so that cases do not meet. Gives the number of deaths."""
    deaths = 0
    for early in (True, False):
        for writes in range(MOST):
            name = f"p{writes}{'early' if early else 'late'}"
            if before is not None:
                async with site.controller():
                    await before(site, name)
                    await site.until(partial(settled, site, name), f"{name} to be settled", moving=0.5)
            async with site.controller(Life(writes, before=early)) as life:
                await act(site, name)

                async def over_or_done(life: Life = life, name: str = name) -> bool:
                    return life.over.is_set() or bool(await goal(site, name))

                await site.until(over_or_done, "the controller to die or to be done", moving=0.5)
                died = life.over.is_set()
            async with site.controller() as life:
                await site.until(partial(goal, site, name), f"the end of {name}", moving=0.5)
            if not died:
                break
            deaths += 1
        else:
            raise AssertionError(f"no controller should need {MOST} writes")
    return deaths


async def create(site: PolicySite, name: str) -> None:
    await site.create(
        policy(
            name,
            template(config_map(f"{name}-one", color="red")),
            template(config_map(f"{name}-two", color="red")),
            pruneObjectBehavior="DeleteAll",
        )
    )


async def is_compliant(site: PolicySite, name: str) -> bool:
    status = await site.status(name)
    told = [one["message"] for one in status.get("history", ())]
    found = {await _color(site, f"{name}-one"), await _color(site, f"{name}-two")}
    related = [one["object"]["metadata"]["name"] for one in status.get("relatedObjects", ())]
    return (
        found == {"red"}
        and status.get("compliant") == "Compliant"
        and related == [f"{name}-one", f"{name}-two"]
        and told[0]
        == f"Compliant; notification - configmaps [{name}-one] found as specified in namespace app; "
        f"notification - configmaps [{name}-two] found as specified in namespace app"
        and len(told) == len(set(told))
    )


async def test_dying_while_a_policy_is_enforced_for_the_first_time(site: PolicySite) -> None:
    # Finalizer, two objects, and the two states of them.
    assert await die_everywhere(site, None, is_compliant, create, is_compliant) >= 2 * 4


async def test_dying_while_drift_is_undone(site: PolicySite) -> None:
    async def drift(site: PolicySite, name: str) -> None:
        await site.spoke.delete(CONFIG_MAPS, f"{name}-one", "app")
        await site.spoke.patch(CONFIG_MAPS, f"{name}-two", {"data": {"color": "blue"}}, "app")

    async def is_undone(site: PolicySite, name: str) -> bool:
        status = await site.status(name)
        found = {await _color(site, f"{name}-one"), await _color(site, f"{name}-two")}
        return found == {"red"} and status["compliant"] == "Compliant" and "found as specified" in status["history"][0]["message"]

    assert await die_everywhere(site, create, is_compliant, drift, is_undone) >= 2 * 2


async def test_dying_while_an_object_is_pruned(site: PolicySite) -> None:
    async def narrow(site: PolicySite, name: str) -> None:
        await site.change(name, {"spec": {"object-templates": [template(config_map(f"{name}-two", color="red"))]}})

    async def is_narrowed(site: PolicySite, name: str) -> bool:
        status = await site.status(name)
        related = [one["object"]["metadata"]["name"] for one in status["relatedObjects"]]
        return await _color(site, f"{name}-one") is None and related == [f"{name}-two"]

    assert await die_everywhere(site, create, is_compliant, narrow, is_narrowed) >= 2 * 2


async def test_dying_while_a_policy_is_deleted(site: PolicySite) -> None:
    async def delete(site: PolicySite, name: str) -> None:
        await site.spoke.delete(POLICIES, name, CLUSTER)

    async def is_gone(site: PolicySite, name: str) -> bool:
        left = [await _color(site, f"{name}-one"), await _color(site, f"{name}-two")]
        return await site.get(name) is None and left == [None, None]

    assert await die_everywhere(site, create, is_compliant, delete, is_gone) >= 2 * 3


async def _color(site: PolicySite, name: str) -> str | None:
    found = await site.data(name)
    return None if found is None else found["color"]
