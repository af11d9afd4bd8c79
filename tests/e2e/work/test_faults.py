"""Agents that are killed, clusters that are away, manifests that nobody can apply, and very many of them: all comes right.

`MUSTER_KILLS`, `MUSTER_AWAY` and `MUSTER_MANIFESTS` make the runs longer than a quick one can be.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from bench.sides import cpu_seconds, resident

from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.errors import KubeError
from muster.work.kinds import APPLIED_WORKS
from tests.support.bad_manifests import BAD_MANIFESTS
from tests.support.link import Link
from tests.support.planes import ADMIN, USERS, write_kubeconfig
from tests.support.processes import Server, complaints
from tests.support.registration import MUSTER
from tests.support.sites import beside_kube
from tests.support.working import Workplace, condition, config_map

pytestmark = beside_kube

KILLS = int(os.environ.get("MUSTER_KILLS", "10"))
AWAY = float(os.environ.get("MUSTER_AWAY", "2"))
"""Seconds for which a cluster is away."""
MANIFESTS = int(os.environ.get("MUSTER_MANIFESTS", "200"))


@asynccontextmanager
async def agent_process(place: Workplace, directory: Path) -> AsyncIterator[Server]:
    """`muster work-agent`, not started yet."""
    spoke = await place.client()
    await spoke.close()
    files = {name: directory / f"{name}.kubeconfig" for name in ("hub", "spoke")}
    write_kubeconfig(files["hub"], place.cluster.url, place.cluster.ca, {"token": USERS[ADMIN].token})
    write_kubeconfig(files["spoke"], place.cluster.url, place.cluster.ca, {"token": place.token})
    command: list[str | Path] = [MUSTER, "work-agent", "--spoke-cluster-name", place.name, "--agent-id", place.name]
    command += ["--hub-kubeconfig", files["hub"], "--kubeconfig", files["spoke"], "--health-port=0"]
    server = Server("muster work-agent", command, directory / "work-agent.log")
    try:
        yield server
    finally:
        server.stop(kill=True)


class Author:
    """Somebody on the hub who keeps changing works at random, and knows what should be there in the end."""

    def __init__(self, place: Workplace, works: int, chance: random.Random) -> None:
        self._place = place
        self._works = [f"w{number}" for number in range(works)]
        self._chance = chance
        self.wanted: dict[str, dict[str, str]] = {}

    async def act(self) -> None:
        name = self._chance.choice(self._works)
        contents = {f"{name}-{self._chance.randrange(6)}": str(self._chance.randrange(10**6)) for _ in range(3)}
        manifests = [config_map(each, self._place.namespace, a=value) for each, value in contents.items()]
        there = await self._place.work(name)
        if there is None:
            await self._place.create(name, *manifests)
        elif there["metadata"].get("deletionTimestamp"):
            return
        elif self._chance.random() < 0.25:
            await self._place.delete(name)
            self.wanted.pop(name, None)
            return
        else:
            await self._place.change(name, *manifests)
        self.wanted[name] = contents

    @property
    def objects(self) -> dict[str, str]:
        return {name: value for contents in self.wanted.values() for name, value in contents.items()}


async def test_an_agent_that_is_killed_again_and_again_gets_everything_right(place: Workplace, tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("MUSTER_SEED", "works"))
    author = Author(place, max(12, KILLS * 4), chance)
    await place.admin.create(CONFIG_MAPS, config_map("foreign", place.namespace, a="keep"))
    async with agent_process(place, tmp_path) as agent:
        for _ in range(KILLS):
            for _ in range(6):
                await author.act()
            lives = _lives(agent)
            agent.start()
            # Some die while they come to life, most in the middle of their work.
            if chance.random() < 0.8:
                agent.wait_until(partial(_began_again, agent, lives), 20)
            end = time.monotonic() + chance.uniform(0.0, 0.8)
            while time.monotonic() < end:
                await author.act()
                await asyncio.sleep(0.02)
            agent.stop(kill=True)
        agent.start()

        async def right() -> bool:
            works = await place.works()
            if {work["metadata"]["name"] for work in works} != set(author.wanted):
                return False
            found = {
                one["metadata"]["name"]: one.get("data", {}).get("a")
                for one in (await place.admin.list(CONFIG_MAPS, place.namespace)).items
                if one["metadata"]["name"] != "kube-root-ca.crt"
            }
            return found == {**author.objects, "foreign": "keep"} and all(map(_applied, works))

        await place.wait(right, "the cluster to have what the hub says and nothing else", 60)

        async def recorded() -> bool:
            """Its last word comes after works that wait, within a minute."""
            found = (await place.admin.list(APPLIED_WORKS)).items
            records = {one["spec"]["manifestWorkName"]: one for one in found if one["spec"].get("agentID") == place.name}
            assert set(records) == set(author.wanted)
            entries = {name: one.get("status", {}).get("appliedResources", ()) for name, one in records.items()}
            return {name: {one["name"] for one in listed if one.get("uid")} for name, listed in entries.items()} == {
                name: set(contents) for name, contents in author.wanted.items()
            }

        await place.wait(recorded, "the records to have what there is and nothing else", 90)
        assert complaints(agent.log) == []


def _lives(agent: Server) -> int:
    """How often the agent has begun so far."""
    return agent.log.read_text().count("started: ") if agent.log.exists() else 0


def _began_again(agent: Server, lives: int) -> bool:
    return _lives(agent) > lives


def _applied(work: Object) -> bool:
    found = condition(work.get("status") or {}, "Applied")
    return found.get("status") == "True" and found.get("observedGeneration") == work["metadata"]["generation"]


async def test_while_the_managed_cluster_is_away_nothing_is_lost(place: Workplace) -> None:
    link = Link(place.cluster.url)
    try:
        async with place.agent(spoke=link.url(place.cluster.url)) as agent:
            await place.create("before", config_map("before", place.namespace, a="1"), config_map("goes", place.namespace))
            await place.create("leaves", config_map("leaves", place.namespace))
            await place.wait_applied("before")
            await place.wait_applied("leaves")
            await agent.quiet(0.5)
            link.cut()
            await place.change("before", config_map("before", place.namespace, a="2"))
            await place.create("new", config_map("new", place.namespace))
            await place.delete("leaves")
            await place.admin.delete(CONFIG_MAPS, "before", place.namespace)
            await asyncio.sleep(AWAY)
            assert await place.data("new") is None
            link.mend()
            await place.wait_applied("before", 40)
            await place.wait_applied("new", 40)
            await place.wait_gone("leaves", 40)
            assert await place.data("before") == {"a": "2"}
            assert await place.data("goes") is None
            assert await place.data("leaves") is None
    finally:
        link.close()


async def test_while_the_hub_is_away_the_cluster_is_kept_as_it_said(place: Workplace) -> None:
    link = Link(place.cluster.url)
    try:
        async with place.agent(hub=link.url(place.cluster.url), eviction_grace=1.0) as agent:
            await place.create("kept", config_map("kept", place.namespace, a="1"))
            await place.wait_applied("kept")
            await agent.quiet(0.5)
            link.cut()
            await place.admin.delete(CONFIG_MAPS, "kept", place.namespace)

            async def back() -> bool:
                return await place.data("kept") == {"a": "1"}

            await place.wait(back, "the object to be made anew without the hub", 5)
            await asyncio.sleep(AWAY)
            # Longer than the time of grace: a hub that is away has not lost its works.
            assert await back()
            await place.change("kept", config_map("kept", place.namespace, a="2"))
            link.mend()
            await place.wait_applied("kept", 40)
            assert await place.data("kept") == {"a": "2"}
    finally:
        link.close()


async def judged(place: Workplace, name: str) -> list[Object] | None:
    """A work's manifests, once the agent lacks no right for any."""
    work = await place.work(name)
    assert work is not None
    entries: list[Object] = work["status"]["resourceStatus"]["manifests"]
    messages = [condition(entry, "Applied")["message"] for entry in entries]
    return None if any("the work agent itself lacks the permission" in message for message in messages) else entries


async def test_manifests_that_nobody_can_apply_say_why_and_harm_nobody(place: Workplace) -> None:
    fine = config_map("fine", place.namespace, a="b")
    await place.grant("all", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    async with place.agent() as agent:
        await place.create("bad", *(bad.document(place.namespace) for bad in BAD_MANIFESTS), fine)
        await place.create("good", config_map("good", place.namespace))
        await place.wait_applied("good")
        await place.wait_condition("bad", "Applied", "False")
        assert await place.data("fine") == {"a": "b"}
        # What was granted counts for the server once its controller has added it to the agent's role.
        entries = await place.wait(lambda: judged(place, "bad"), "every manifest to have been judged by the server")
        for bad, entry in zip(BAD_MANIFESTS, entries, strict=False):
            applied = condition(entry, "Applied")
            assert applied["status"] == "False", bad.kind
            assert bad.says in applied["message"], (bad.kind, applied["message"])
            assert condition(entry, "Available")["status"] == "False", bad.kind
        assert condition(entries[-1], "Applied")["status"] == "True"
        agent.forget()
        await asyncio.sleep(1.0)
        # They are tried again, each rarer and rarer.
        assert len(agent.spoke.asked) < 6 * len(BAD_MANIFESTS)
        await place.delete("bad")
        await place.wait_gone("bad")


@pytest.mark.timeout(900)
async def test_very_many_manifests_are_applied_and_then_cost_nothing(place: Workplace, tmp_path: Path) -> None:
    works = MANIFESTS // 10
    began = time.monotonic()
    gate = asyncio.Semaphore(16)

    async def create(number: int) -> None:
        async with gate:
            await place.create(
                f"many-{number}", *(config_map(f"m{number}-{each}", place.namespace, a="x" * 100) for each in range(10))
            )

    await asyncio.gather(*map(create, range(works)))
    created = time.monotonic() - began
    async with agent_process(place, tmp_path) as agent:
        began = time.monotonic()
        agent.start()

        async def all_applied() -> bool:
            await asyncio.sleep(0.2 + works / 300)
            found = await place.works()
            return len(found) == works and all(map(_applied, found))

        await place.wait(all_applied, "all works to be applied", 600)
        applied = time.monotonic() - began
        memory, cpu = resident(agent.pid) / 2**20, cpu_seconds(agent.pid)
        await asyncio.sleep(1)
        idle = cpu_seconds(agent.pid)
        await asyncio.sleep(2)
        idle = cpu_seconds(agent.pid) - idle
        took = f"applied in {applied:.1f} s (made in {created:.1f} s)"
        print(f"{MANIFESTS} manifests {took}: {memory:.0f} MB, {cpu:.1f} s of CPU, then {idle:.2f} s in 2 s")
        assert idle < 1.0
        if MANIFESTS >= 10_000:
            assert memory < 160
        assert complaints(agent.log) == []


@pytest.mark.timeout(600)
async def test_a_work_of_more_manifests_than_a_status_can_hold_is_applied_and_reported(place: Workplace) -> None:
    many = 2200
    manifests = [config_map(f"m{number}", place.namespace) for number in range(many)]
    broken = config_map("broken", f"{place.namespace}-nowhere")
    async with place.agent():
        await place.create("huge", *manifests, broken)
        work = await place.wait_condition("huge", "Applied", "False", 240)
        entries = work["status"]["resourceStatus"]["manifests"]
        listed = f"there is room for {len(entries)} of {many + 1} manifests in this status"
        assert listed in condition(work["status"], "Applied")["message"]
        assert many // 2 < len(entries) < many
        # What is wrong is always among them.
        assert "not found" in condition(entries[-1], "Applied")["message"]
        assert condition(work["status"], "Available")["message"] == f"1 of {many + 1} resources are not available"

        await place.change("huge", *manifests[:10])
        work = await place.wait_applied("huge", 240)
        assert len(work["status"]["resourceStatus"]["manifests"]) == 10
        assert condition(work["status"], "Applied")["message"] == "Apply manifest work complete"
        assert await place.data("m9") == {}
        assert await place.data("m10") is None


async def test_a_request_that_is_refused_for_a_while_is_tried_again(place: Workplace) -> None:
    inner = f"{place.namespace}-later"
    async with place.agent():
        await place.create("early", config_map("early", inner, a="b"))
        await place.wait_condition("early", "Applied", "False")
        assert "not found" in condition(await place.manifest("early", 0), "Applied")["message"]
        try:
            await place.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}})
            await place.wait_applied("early", 20)
        finally:
            with contextlib.suppress(KubeError):
                await place.admin.delete(NAMESPACES, inner)
