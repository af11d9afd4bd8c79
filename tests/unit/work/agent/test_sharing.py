"""Objects that are not one work's alone: works that are about the same one, and those who change back what a work says."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from muster.api.work.v1 import AppliedManifestWork
from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import Object
from muster.runtime.cache.dynamic import DynamicCache
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.restmapper import RESTMapper
from muster.work.agent.deletion import Remover
from muster.work.agent.records import owner_of
from muster.work.agent.work_state import REPAIRS
from muster.work.kinds import MANIFEST_WORKS
from tests.unit.work.agent.conftest import CLUSTER, Life, Site, config_map, until
from tests.unit.work.agent.test_pass import applied, of, quiet

VALUE = [{"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".data.a"}]}]


async def entry(site: Site, work: str) -> Object:
    found = await site.work(work)
    assert found is not None
    (only,) = found["status"]["resourceStatus"]["manifests"]
    return only


def puts(life: Life) -> int:
    return [method for method, _ in life.asked].count("PUT")


async def test_a_work_that_only_reads_is_told_of_what_another_work_writes_and_removes(site: Site) -> None:
    async with site.agent():
        await site.create("writes", config_map("x", a="1"))
        await applied(site, "writes")
        reads = of("configmaps", "x", updateStrategy={"type": "ReadOnly"}, feedbackRules=VALUE)
        await site.create("reads", config_map("x"), manifestConfigs=[reads])
        await applied(site, "reads")

        async def told(value: str) -> bool:
            values = (await entry(site, "reads")).get("statusFeedback", {}).get("values") or ()
            return [one["fieldValue"]["string"] for one in values] == [value]

        await until(lambda: told("1"), "the first value")
        await site.change("writes", config_map("x", a="2"))
        await until(lambda: told("2"), "the value that the other work wrote")
        await site.hub.delete(MANIFEST_WORKS, "writes", CLUSTER)

        async def missing() -> bool:
            conditions = (await entry(site, "reads"))["conditions"]
            return any(one["type"] == "Available" and one["status"] == "False" for one in conditions)

        await until(missing, "the loss to be told")


async def test_an_orphan_that_another_work_took_with_it_is_made_anew(site: Site) -> None:
    async with site.agent():
        await site.create("takes", config_map("x", a="1"))
        await applied(site, "takes")
        await site.create("keeps", config_map("x", a="1"), deleteOption={"propagationPolicy": "Orphan"})
        await applied(site, "keeps")
        first = (await site.config_maps())["x"]["metadata"]["uid"]
        await site.hub.delete(MANIFEST_WORKS, "takes", CLUSTER)

        async def anew() -> bool:
            found = (await site.config_maps()).get("x")
            return found is not None and found["metadata"]["uid"] != first

        await until(anew, "the object to be made anew for the work that still has it")


async def test_who_changes_an_object_back_at_once_does_not_make_the_agent_write_for_ever(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("x", a="1"))
        await applied(site)
        await quiet(life)
        life.asked.clear()

        async def overruled() -> bool:
            """The agent is left with what the other says for longer than it ever takes to set something right."""
            for _ in range(25):
                if (await site.config_maps())["x"]["data"] != {"a": "other"}:
                    await site.spoke.patch(CONFIG_MAPS, "x", {"data": {"a": "other"}}, "app")
                    return False
                await asyncio.sleep(0.04)
            return True

        await until(overruled, "the agent to rest")
        assert puts(life) <= REPAIRS + 2
        # It has not given up: what the work says anew is written at once.
        await site.change("w", config_map("x", a="2"))
        await applied(site)
        assert (await site.config_maps())["x"]["data"] == {"a": "2"}


async def test_works_that_contradict_each_other_do_not_keep_the_agent_busy(site: Site) -> None:
    async with site.agent() as life:
        for work in ("one", "two"):
            await site.create(work, config_map("x", a=work))
        for work in ("one", "two"):
            await applied(site, work)
        await quiet(life, 1.0)
        assert puts(life) <= 2 * REPAIRS + 4
        owners = (await site.config_maps())["x"]["metadata"]["ownerReferences"]
        assert len(owners) == 2


async def test_works_with_managers_of_their_own_each_keep_their_fields(site: Site) -> None:
    async with site.agent() as life:
        for work in ("one", "two"):
            manager = {"type": "ServerSideApply", "serverSideApply": {"fieldManager": f"work-agent-{work}"}}
            config = of("configmaps", "x", updateStrategy=manager)
            await site.create(work, config_map("x", **{work: "1"}), manifestConfigs=[config])
            await applied(site, work)
        await site.change("one", config_map("x", one="2"))
        await applied(site, "one")
        await quiet(life)
        found = (await site.config_maps())["x"]
        assert found["data"] == {"one": "2", "two": "1"}
        assert len(found["metadata"]["ownerReferences"]) == 2
        await site.hub.delete(MANIFEST_WORKS, "one", CLUSTER)

        async def left() -> bool:
            return await site.work("one") is None

        await until(left, "the first work to go")
        owners = (await site.config_maps())["x"]["metadata"]["ownerReferences"]
        assert [owner["name"].endswith("-two") for owner in owners] == [True]


async def test_an_object_that_another_work_takes_on_at_the_last_moment_is_not_deleted(site: Site) -> None:
    """A manifest moves from one work to another, and the deletion for the one is overtaken by the write for the other."""

    class Overtaken(InProcessClient):
        async def delete(self, resource: Any, name: str, namespace: str = "", **options: Any) -> Object:
            if resource == CONFIG_MAPS and not taken:
                taken.append(name)
                await site.create("new", config_map(name, a="2"))
                async with site.agent(agent_id="other"):
                    await applied(site, "new")
            return await super().delete(resource, name, namespace, **options)

    taken: list[str] = []
    async with site.agent():
        await site.create("old", config_map("x", a="1"), config_map("stays"))
        await applied(site, "old")
    first = (await site.config_maps())["x"]["metadata"]["uid"]
    (record,) = [AppliedManifestWork.decode(one) for one in await site.records()]
    client = Overtaken(site.server.client(site.server.clusters["spoke"]))
    observer = DynamicCache(client)
    remover = Remover(client, observer, RESTMapper(client).resource_for)
    entries = [one for one in record.status.applied_resources if one.name == "x"]
    removal = await remover.remove(entries, owner_of(record))
    assert taken == ["x"]
    assert [entry.name for entry in removal.gone] == ["x"]
    found = (await site.config_maps())["x"]
    assert found["metadata"]["uid"] == first
    assert [owner["name"].endswith("-new") for owner in found["metadata"]["ownerReferences"]] == [True]


class Owners:
    """People who keep changing works that share four objects, each in its own way, and know whose they are in the end."""

    WAYS = ("Update", "CreateOnly", "ServerSideApply")

    def __init__(self, site: Site, chance: random.Random) -> None:
        self._site = site
        self._chance = chance
        self.wanted: dict[str, list[str]] = {}

    async def act(self, step: int) -> None:
        name = f"w{self._chance.randrange(4)}"
        there = await self._site.work(name)
        if there is not None and there["metadata"].get("deletionTimestamp"):
            return
        if there is not None and self._chance.random() < 0.3:
            await self._site.hub.delete(MANIFEST_WORKS, name, CLUSTER)
            del self.wanted[name]
            return
        objects = self._chance.sample([f"x{number}" for number in range(4)], self._chance.randint(1, 3))
        manifests = [config_map(each, a=str(step)) for each in objects]
        configs = [of("configmaps", each, updateStrategy=self._way()) for each in objects]
        if there is None:
            await self._site.create(name, *manifests, manifestConfigs=configs)
        else:
            spec = {"workload": {"manifests": manifests}, "manifestConfigs": configs}
            await self._site.hub.patch(MANIFEST_WORKS, name, {"spec": spec}, CLUSTER)
        self.wanted[name] = objects

    def _way(self) -> Object:
        kind = self._chance.choice(self.WAYS)
        return {"type": kind, **({"serverSideApply": {"force": True}} if kind == "ServerSideApply" else {})}

    async def satisfied(self) -> bool:
        """Every object that a work has is there, marked by exactly the works that have it, and there is nothing else."""
        records = {one["metadata"]["uid"]: one["spec"]["manifestWorkName"] for one in await self._site.records()}
        live = {
            name: sorted(records.get(owner["uid"], "nobody") for owner in one["metadata"].get("ownerReferences", ()))
            for name, one in (await self._site.config_maps()).items()
        }
        theirs: dict[str, list[str]] = {}
        for work in sorted(self.wanted):
            for name in self.wanted[work]:
                theirs.setdefault(name, []).append(work)
        works = {one["metadata"]["name"] for one in (await self._site.hub.list(MANIFEST_WORKS, CLUSTER)).items}
        same = live == theirs and works == set(records.values()) == set(self.wanted)
        return same and all([await self._site.applied(work) for work in works])


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_works_share_belongs_to_those_that_have_it(site: Site, seed: int) -> None:
    chance = random.Random(seed)
    owners = Owners(site, chance)
    async with site.agent():
        for step in range(50):
            await owners.act(step)
            await asyncio.sleep(chance.choice((0.0, 0.0, 0.005, 0.02, 0.1)))
        await until(owners.satisfied, "all objects to be whose they are")
