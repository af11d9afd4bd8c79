"""What the agent remembers of works goes with them, and a work that changes for ever takes no more room than one that does not."""

import asyncio
from typing import Any

from muster.apiserver.client import DirectClient
from muster.machinery.objects import Object
from muster.runtime.cache.store import Recent
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.controller.events import EventRecorder
from muster.work.agent.agent import WorkAgent
from muster.work.agent.options import WorkAgentOptions
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from tests.support.holdings import grown, holdings
from tests.unit.work.agent.conftest import CLUSTER, HUB_URL, Life, Mortal, Site, config_map, namespace, until

MANY = 15
BOUNDED = {"AppliedShapes._entries", "TTLCache._known"}
"""The last of what was applied, and the last answers about executors, are remembered, needed or not; both have a limit."""
PASSING = {"WorkQueue._timers", "WorkQueue._waiters"}
"""Keys of what is gone, to be looked at once more, and workers that have nothing to do."""
ROUNDS = 50
EXECUTOR = {"type": "ServiceAccount", "serviceAccount": {"namespace": "app", "name": "deployer"}}


class Kept:
    """An agent that works, and what it holds."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.life = Life()
        hub, spoke = (
            Mortal(site.server.client(site.server.clusters[name]), url, self.life)
            for name, url in (("hub", HUB_URL), ("spoke", "https://spoke.example"))
        )
        self.agent = WorkAgent(hub, spoke, WorkAgentOptions(cluster_name=CLUSTER))
        self._task = asyncio.create_task(self.agent.run())

    def holdings(self) -> Any:
        self.life.asked.clear()
        # What has been decoded or told lately is kept up to a limit, of whatever it is.
        return holdings(self.agent, apart=(DirectClient, EventRecorder, Recent))

    async def end(self) -> None:
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def manifests(number: int) -> list[Object]:
    """Good ones in a namespace of their own, one of a kind that is not served, and one that cannot be applied."""
    return [
        namespace(f"own{number}"),
        config_map("a", f"own{number}"),
        {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "a", "namespace": "app"}},
        config_map("a", f"nowhere{number}"),
    ]


async def come_and_go(site: Site, first: int) -> None:
    names = [f"w{number}" for number in range(first, first + MANY)]
    for number, name in enumerate(names, first):
        await site.create(name, *manifests(number), **({"executor": {"subject": EXECUTOR}} if number % 3 == 0 else {}))

    async def told() -> bool:
        works = (await site.hub.list(MANIFEST_WORKS, CLUSTER)).items
        return all((work.get("status") or {}).get("conditions") for work in works if work["metadata"]["name"] in names)

    async def gone() -> bool:
        spaces = {one["metadata"]["name"] for one in (await site.spoke.list(NAMESPACES)).items}
        left = (await site.hub.list(MANIFEST_WORKS, CLUSTER)).items, (await site.spoke.list(APPLIED_WORKS)).items
        return [len(one) for one in left] == [1, 1] and not any(space.startswith("own") for space in spaces)

    await until(told, "the status of all works")
    for name in names:
        await site.hub.delete(MANIFEST_WORKS, name, CLUSTER)
    await until(gone, "their end")


async def test_nothing_is_kept_of_works_that_are_gone(site: Site) -> None:
    kept = Kept(site)
    # One that stays, in so many namespaces that all are watched.
    await site.create(
        "stays",
        *(namespace(f"stays{number}") for number in range(10)),
        *(config_map("a", f"stays{number}") for number in range(10)),
    )
    await come_and_go(site, 0)
    before = kept.holdings()
    await come_and_go(site, MANY)

    async def forgotten() -> bool:
        return grown(before, kept.holdings(), MANY // 2).keys() <= BOUNDED | PASSING

    await until(forgotten, "what was kept to go")
    await kept.end()


async def test_changes_without_end_leave_nothing(site: Site) -> None:
    kept = Kept(site)
    rule = {"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}
    identifier = {"group": "", "resource": "configmaps", "name": "a", "namespace": "app"}
    options = [{"resourceIdentifier": identifier, "feedbackRules": [rule]}]
    await site.create("w", config_map("a", k="0"), manifestConfigs=options)

    async def change(first: int) -> None:
        for number in range(first, first + ROUNDS):
            await site.change("w", config_map("a", k=f"{number}"))
            await until(lambda: site.applied("w"), "the change")
            await site.spoke.patch(CONFIG_MAPS, "a", {"data": {"foreign": f"{number}"}}, "app")

    await change(1)
    before = kept.holdings()
    await change(1 + ROUNDS)
    await until(lambda: asyncio.sleep(0, not grown(before, kept.holdings(), 5)), "what was kept to go")
    await kept.end()
