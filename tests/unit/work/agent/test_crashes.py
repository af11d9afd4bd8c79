"""An agent may die before or after any of its requests: the next one finishes what it began and forgets nothing.

An agent is let live for one request more each time, until it needs no more to reach its goal; after each death something happens on
the hub, and another agent has to bring the cluster to what the hub says by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from muster.runtime.client.builtin import CONFIG_MAPS
from muster.work.kinds import MANIFEST_WORKS
from tests.unit.work.agent.conftest import CLUSTER, Life, Site, config_map, until

MOST = 40
"""Requests that no scenario needs."""


@dataclass(frozen=True)
class Case:
    """One death: names are its own, so that cases do not meet."""

    site: Site
    work: str

    def manifests(self, *names: str) -> list[dict[str, object]]:
        return [config_map(f"{self.work}-{name}", a=name) for name in names]

    async def create(self, *names: str) -> None:
        await self.site.create(self.work, *self.manifests(*names))

    async def change(self, *names: str) -> None:
        await self.site.change(self.work, *self.manifests(*names))

    async def delete(self) -> None:
        await self.site.hub.delete(MANIFEST_WORKS, self.work, CLUSTER)

    async def has(self, *names: str) -> bool:
        """Exactly these, applied and on record."""
        if not await self.site.applied(self.work):
            return False
        live = {name: one for name, one in (await self.site.config_maps()).items() if name.startswith(f"{self.work}-")}
        if set(live) != {f"{self.work}-{name}" for name in names}:
            return False
        records = [one for one in await self.site.records() if one["spec"]["manifestWorkName"] == self.work]
        entries = {entry["name"]: entry.get("uid") for one in records for entry in one["status"].get("appliedResources", ())}
        return entries == {name: one["metadata"]["uid"] for name, one in live.items()}

    async def is_gone(self) -> bool:
        live = [name for name in await self.site.config_maps() if name.startswith(f"{self.work}-")]
        records = [one for one in await self.site.records() if one["spec"]["manifestWorkName"] == self.work]
        return await self.site.work(self.work) is None and not live and not records


Act = Callable[[Case], Awaitable[None]]
Check = Callable[[Case], Awaitable[bool]]


async def die_everywhere(site: Site, before: Act | None, act: Act, goal: Check, meanwhile: Act | None, end: Check) -> None:
    await site.spoke.create(CONFIG_MAPS, config_map("foreign", keep="me"))
    deaths = 0
    for early in (True, False):
        for requests in range(MOST):
            case = Case(site, f"w{requests}{'early' if early else 'late'}")
            if before is not None:
                async with site.agent():
                    await before(case)
            async with site.agent(Life(requests, before=early)) as life:
                await act(case)

                async def over_or_done(life: Life = life, case: Case = case) -> bool:
                    return life.over.is_set() or await goal(case)

                await until(over_or_done, "the agent to die or to be done")
                died = life.over.is_set()
            if meanwhile is not None:
                await meanwhile(case)
            async with site.agent():
                await until(partial(end, case), f"the end of {case.work}")
            if not died:
                break
            deaths += 1
        else:
            raise AssertionError(f"no agent should need {MOST} requests")
    assert deaths > 4
    assert (await site.config_maps())["foreign"]["data"] == {"keep": "me"}


async def test_dying_while_a_work_is_applied_for_the_first_time(site: Site) -> None:
    await die_everywhere(
        site, None, lambda case: case.create("a", "b"), lambda case: case.has("a", "b"), None, lambda case: case.has("a", "b")
    )


async def test_dying_while_a_work_is_applied_that_changes_before_the_agent_is_back(site: Site) -> None:
    await die_everywhere(
        site,
        None,
        lambda case: case.create("a", "b"),
        lambda case: case.has("a", "b"),
        lambda case: case.change("b", "c"),
        lambda case: case.has("b", "c"),
    )


async def test_dying_while_a_work_is_applied_that_is_deleted_before_the_agent_is_back(site: Site) -> None:
    await die_everywhere(site, None, lambda case: case.create("a", "b"), lambda case: case.has("a", "b"), Case.delete, Case.is_gone)


async def test_dying_while_a_change_is_applied_that_is_taken_back_before_the_agent_is_back(site: Site) -> None:
    async def before(case: Case) -> None:
        await case.create("a", "b")
        await until(lambda: case.has("a", "b"), "the first version")

    await die_everywhere(
        site,
        before,
        lambda case: case.change("b", "c"),
        lambda case: case.has("b", "c"),
        lambda case: case.change("a"),
        lambda case: case.has("a"),
    )


async def test_dying_while_a_work_is_deleted(site: Site) -> None:
    async def before(case: Case) -> None:
        await case.create("a", "b")
        await until(lambda: case.has("a", "b"), "the work to be applied")

    await die_everywhere(site, before, Case.delete, Case.is_gone, None, Case.is_gone)
