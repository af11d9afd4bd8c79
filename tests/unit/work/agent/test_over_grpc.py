"""The work agent with a hub that it reaches over gRPC alone: it is the same agent, with another source of works."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.transport.contract.event import RESOURCE_ID
from muster.transport.contract.rows import WORKS
from muster.transport.rpc.status import Code, RpcError
from muster.work.agent.agent import WorkAgent
from muster.work.agent.options import WorkAgentOptions
from muster.work.agent.source import hash_of
from muster.work.names import WORK_FINALIZER
from tests.support.transport_hub import FakeHub
from tests.unit.work.agent.conftest import CLUSTER, Life, Mortal, Site, config_map, until
from tests.unit.work.agent.test_pass import of, quiet

ONE, TWO = "one.example:8090", "two.example:8090"


class Hub(FakeHub):
    def __init__(self, *addresses: str, go: bool = False) -> None:
        super().__init__(*(addresses or (ONE,)), go=go, clock=SYSTEM)

    def create(self, name: str, *manifests: Object, **fields: Any) -> None:
        spec = {"workload": {"manifests": list(manifests)}, **fields}
        self.put(WORKS, {"metadata": {"name": name, "namespace": CLUSTER}, "spec": spec})

    def update(self, name: str, *manifests: Object) -> None:
        self.change(WORKS, name, CLUSTER, spec={"workload": {"manifests": list(manifests)}})

    def work(self, name: str) -> Object:
        return self.get(WORKS, name, CLUSTER) or {}

    async def applied(self, name: str) -> bool:
        work = self.work(name)
        conditions = (work.get("status") or {}).get("conditions") or ()
        return any(
            (one["type"], one["status"], one.get("observedGeneration")) == ("Applied", "True", work["metadata"]["generation"])
            for one in conditions
        )

    async def complete(self, name: str) -> bool:
        conditions = (self.work(name).get("status") or {}).get("conditions") or ()
        return any((one["type"], one["status"]) == ("Complete", "True") for one in conditions)

    async def gone(self, name: str) -> bool:
        return not self.work(name)


@contextlib.asynccontextmanager
async def agent(site: Site, hub: Hub, life: Life | None = None, **options: Any) -> AsyncIterator[WorkAgent]:
    client = hub.connect(CLUSTER, source=f"{CLUSTER}-work-agent")
    spoke = Mortal(site.server.client(site.server.clusters["spoke"]), "https://spoke.example", life or Life())
    made = WorkAgent(client, spoke, WorkAgentOptions(cluster_name=CLUSTER, **options))
    task = asyncio.create_task(made.run())
    try:
        yield made
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def test_a_work_is_applied_changed_and_removed(site: Site) -> None:
    hub = Hub()
    async with agent(site, hub) as running:
        assert running.hub_hash == hash_of(ONE)
        hub.create("w", config_map("a"), config_map("b"))
        await until(lambda: hub.applied("w"), "the work being applied")
        assert set(await site.config_maps()) == {"a", "b"}
        hub.update("w", config_map("a", x="y"))
        await until(lambda: hub.applied("w"), "the change being applied")
        found = await site.config_maps()
        assert set(found) == {"a"}
        assert found["a"]["data"] == {"x": "y"}
        hub.delete(WORKS, "w", CLUSTER)
        await until(lambda: hub.gone("w"), "the work being gone")
        assert not await site.config_maps()
        assert not await site.records()


class Witness(Life):
    """Looks at the hub whenever an object of a work is written."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self.hub = hub
        self.held: list[bool] = []

    def begin(self, method: str, path: str) -> None:
        super().begin(method, path)
        if method != "GET" and path.endswith("/configmaps"):
            self.held.append(WORK_FINALIZER in (self.hub.work("w")["metadata"].get("finalizers") or ()))


async def test_nothing_is_applied_before_the_hub_has_confirmed_the_finalizer(site: Site) -> None:
    hub = Hub()
    witness = Witness(hub)
    hub.refuse = lambda method, row: RpcError(Code.UNAVAILABLE, "not now") if method == "Publish" and hub.work("w") else None
    async with agent(site, hub, witness):
        await until(lambda: _is(bool(hub.streams(WORKS))), "the stream")
        hub.create("w", config_map("a"))
        await asyncio.sleep(0.2)
        assert not await site.config_maps()
        assert not await site.records()
        hub.refuse = lambda method, row: None
        await until(lambda: hub.applied("w"), "the work being applied")
    assert witness.held == [True]


async def _is(answer: bool) -> bool:
    return answer


async def test_a_restarted_agent_writes_and_reports_nothing_that_is_right_already(site: Site) -> None:
    hub = Hub()
    names = [f"w{number}" for number in range(50)]
    async with agent(site, hub):
        for name in names:
            hub.create(name, config_map(name))
        for name in names:
            await until(lambda name=name: hub.applied(name), f"{name} being applied")  # type: ignore[misc]
    life = Life()
    published = len(hub.published)
    async with agent(site, hub, life) as running:
        await until(lambda: _is(running.ready), "the agent to know all works")
        hub.create("last", config_map("last"))
        await until(lambda: hub.applied("last"), "the work being applied that came after all others")
        about = {event.text(RESOURCE_ID) for event in hub.published[published:]}
        assert about == {hub.work("last")["metadata"]["uid"]}
        assert [path for method, path in life.writes if "/configmaps" in path and not path.endswith("/last")] == [
            "/api/v1/namespaces/app/configmaps"
        ], "the last one is made, and no other is written"
        hub.delete(WORKS, "w0", CLUSTER)
        await until(lambda: hub.gone("w0"), "the work being gone")


async def test_to_a_server_that_does_not_give_it_back_a_status_is_reported_anew(site: Site) -> None:
    hub = Hub(go=True)
    async with agent(site, hub):
        hub.create("w", config_map("a"))
        await until(lambda: hub.applied("w"), "the work being applied")
    life = Life()
    published = len(hub.published)
    async with agent(site, hub, life):
        await until(lambda: _is(len(hub.published) > published), "a report")
        assert [path for method, path in life.writes if "configmaps" in path] == []


async def test_a_change_made_while_the_agent_was_away_is_applied_and_reported(site: Site) -> None:
    hub = Hub()
    async with agent(site, hub):
        hub.create("w", config_map("a"))
        await until(lambda: hub.applied("w"), "the work being applied")
    hub.update("w", config_map("a", x="y"))
    async with agent(site, hub):
        await until(lambda: hub.applied("w"), "the change being applied")
        assert (await site.config_maps())["a"]["data"] == {"x": "y"}


ALWAYS = {"type": "CEL", "condition": "Complete", "celExpressions": ["true"]}


async def test_what_was_finished_and_removed_is_not_applied_again_by_a_restarted_agent(site: Site) -> None:
    """As with a Job that was removed because its time to live was over."""
    hub = Hub()
    async with agent(site, hub):
        hub.create("w", config_map("a"), manifestConfigs=[of("configmaps", "a", conditionRules=[ALWAYS])])
        hub.create("unfinished", config_map("b"))
        await until(lambda: hub.complete("w"), "the work being complete")
        await until(lambda: hub.applied("unfinished"), "the other being applied")
    for name in ("a", "b"):
        await site.spoke.delete(CONFIG_MAPS, name, "app")

    async def there() -> bool:
        return "b" in await site.config_maps()

    life = Life()
    async with agent(site, hub, life):
        await until(there, "what was not finished being applied again")
        await quiet(life)
        assert set(await site.config_maps()) == {"b"}
        assert await hub.complete("w")


async def test_a_work_that_has_become_too_large_to_be_sent_is_not_taken_for_gone_by_a_restarted_agent(site: Site) -> None:
    hub = Hub()
    async with agent(site, hub):
        for name in ("large", "gone"):
            hub.create(name, config_map(name))
        for name in ("large", "gone"):
            await until(lambda name=name: hub.applied(name), f"{name} being applied")  # type: ignore[misc]
    before = (await site.config_maps())["large"]["metadata"]["uid"]
    hub.too_large.add("large")
    hub.update("large", config_map("large", x="y"))
    hub.remove(WORKS, "gone", CLUSTER)

    async def evicted() -> bool:
        return set(await site.config_maps()) <= {"large"} and len(await site.records()) <= 1

    async with agent(site, hub, eviction_grace=0.0):
        await until(evicted, "the work that is gone being taken for gone")
        hub.too_large.clear()
        hub.update("large", config_map("large", x="z"))
        await until(lambda: hub.applied("large"), "the work being applied once it fits")
    after = (await site.config_maps())["large"]
    assert (after["metadata"]["uid"], after["data"]) == (before, {"x": "z"})


async def test_a_work_that_is_too_large_to_be_sent_and_goes_takes_along_what_it_had_brought(site: Site) -> None:
    hub = Hub()
    async with agent(site, hub):
        hub.create("w", config_map("a"))
        await until(lambda: hub.applied("w"), "the work being applied")
    hub.too_large.add("w")
    hub.update("w", config_map("a", x="y"))

    async def removed() -> bool:
        return not await site.config_maps()

    async with agent(site, hub, eviction_grace=0.0) as running:
        await until(lambda: _is(running.ready), "the agent to know all works")
        hub.remove(WORKS, "w", CLUSTER)
        await until(removed, "the objects of the work being gone")


async def test_a_work_that_went_while_the_agent_was_away_is_removed(site: Site) -> None:
    hub = Hub()
    async with agent(site, hub):
        hub.create("w", config_map("a"))
        await until(lambda: hub.applied("w"), "the work being applied")
    hub.delete(WORKS, "w", CLUSTER)
    async with agent(site, hub):
        await until(lambda: hub.gone("w"), "the work being gone")
    assert not await site.config_maps()


async def test_a_work_removed_by_force_is_cleaned_up_at_once(site: Site) -> None:
    hub = Hub()
    async with agent(site, hub):
        hub.create("w", config_map("a"))
        await until(lambda: hub.applied("w"), "the work being applied")
        hub.remove(WORKS, "w", CLUSTER)

        async def nothing_left() -> bool:
            return not await site.config_maps() and not await site.records()

        await until(nothing_left, "the objects being gone")


async def test_servers_that_die_under_churn_lose_and_repeat_nothing(site: Site) -> None:
    """Two servers, one of them killed every now and then, while works come, change and go."""
    hub = Hub(ONE, TWO)
    life = Life()
    chance = random.Random(7)
    names = [f"w{number}" for number in range(8)]
    generations: Counter[str] = Counter()

    def act(name: str) -> None:
        generations[name] += 1
        manifest = config_map(name, generation=str(generations[name]))
        if hub.work(name):
            hub.update(name, manifest)
        else:
            hub.create(name, manifest)

    async with agent(site, hub, life):
        for turn in range(30):
            act(chance.choice(names))
            if turn % 5 == 4:
                victim = chance.choice((ONE, TWO))
                hub.kill(victim)
                await asyncio.sleep(0.02)
                hub.servers[victim].alive = True
            await asyncio.sleep(0.02)
        for name in generations:
            await until(lambda name=name: hub.applied(name), f"{name} being applied")  # type: ignore[misc]
        found = await site.config_maps()
        assert {name: int(one["data"]["generation"]) for name, one in found.items()} == generations
        writes = Counter(path.rpartition("/")[2] for method, path in life.writes if "/configmaps/" in path)
        for name in generations:
            # One write makes an object, and each later one is for a generation of its own.
            assert writes[name] < generations[name] + 1
        rest = (await site.spoke.list(CONFIG_MAPS, "app")).items
        assert {one["metadata"]["name"] for one in rest} >= set(generations)
