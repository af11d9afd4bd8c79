"""Templates in policies: our resolver and go-template-utils side by side, on one machine, in one run.

    python -m bench templates [--short]

Each row resolves the same document in Python and in Go, in turns, and takes the best of several turns for both. Figures are per
second of processor time, all threads together, so that they mean the same on a busy machine. Both read a cache that is warm: ours
is that of followed selections of an embedded API server, Go's is upstream's object cache, filled, behind the interface of its
watcher (program peers/resolver). What ours remembers differs by row:

- "at rest": the document and what came out of it are the same as before, as when a policy is evaluated again;
- "values change": the document is the same, the output is not, so YAML becomes JSON each time;
- "YAML both ways": nothing is remembered of the document but the compiled program, so JSON becomes YAML each time too;
- "never seen": its template is parsed and compiled as well.

Go remembers nothing, so its figure is the same in all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.gotemplate import LABELS, resolver_policy
from bench.report import Row
from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.gotemplate import template as engine
from muster.machinery.objects import Object
from muster.policy.dependencies import FollowingSource
from muster.policy.resolver import ResolveOptions, Resolver
from muster.runtime.cache import FollowedSelections
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.restmapper import RESTMapper

TITLE = "Templates in policies"
TEXT = """
Documents resolved by our resolver and by go-template-utils' ResolveTemplate alternately, per second of CPU time, best of
several rounds, both with warm caches.
"At rest": nothing has changed since the last evaluation. "Values change": the output differs each time and is parsed as YAML.
"YAML both ways": the document is also serialized as YAML. "Never seen": its template is compiled as well. The Go library caches
nothing in any of these cases.
"""
PEER = Path(__file__).parent.parent / "peers" / "resolver"
NAMESPACE = "shop"
COUNT = 200
CONTEXT = {"ManagedClusterName": "cluster1", "ManagedClusterLabels": LABELS}
ONE_VARIABLE = json.dumps({"v": "{{ .ManagedClusterName }}"})
ONE_LOOKUP = json.dumps({"v": '{{ fromConfigMap "shop" "settings-0" "color" }}'})
KINDS = [{"apiVersion": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespaced": True}]


def lookups(count: int) -> str:
    return json.dumps({f"v{number}": f'{{{{ fromConfigMap "shop" "settings-{number}" "color" }}}}' for number in range(count)})


LIST = json.dumps({"v": '{{ range (lookup "v1" "ConfigMap" "shop" "" "tier=web").items }}{{ .data.color }},{{ end }}'})


def config_map(number: int) -> Object:
    metadata = {"name": f"settings-{number}", "namespace": NAMESPACE, "labels": {"tier": "web"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": f"blue-{number}", "size": "7"}}


@dataclass(frozen=True)
class Case:
    title: str
    document: str
    resolve: Callable[[Scene, str], Awaitable[object]]
    target: float | None = 1.0


class Scene:
    """A resolver, and what it reads."""

    def __init__(self, selections: FollowedSelections, mapper: RESTMapper) -> None:
        self._selections = selections
        self._mapper = mapper
        self._resolver = Resolver()
        self._numbers = itertools.count()

    def _source(self) -> FollowingSource:
        return FollowingSource(self._selections, self._mapper, "policy")

    async def _with(self, resolver: Resolver, document: str, name: str = "cluster1") -> object:
        source = self._source()
        resolution = await resolver.resolve(document, source, ResolveOptions(context={**CONTEXT, "ManagedClusterName": name}))
        source.commit()
        return resolution.value

    async def at_rest(self, document: str) -> object:
        return await self._with(self._resolver, document)

    async def values_change(self, document: str) -> object:
        return await self._with(self._resolver, document, f"cluster{next(self._numbers)}")

    async def both_ways(self, document: str) -> object:
        return await self._with(Resolver(), document, f"cluster{next(self._numbers)}")

    async def never_seen(self, document: str) -> object:
        engine.forget_programs()
        return await self._with(Resolver(), document, f"cluster{next(self._numbers)}")


POLICY = resolver_policy()[0]
CASES = (
    Case("1 context variable, at rest", ONE_VARIABLE, Scene.at_rest),
    Case("1 context variable, YAML both ways", ONE_VARIABLE, Scene.both_ways),
    Case("1 cached fromConfigMap, at rest", ONE_LOOKUP, Scene.at_rest),
    Case("4 KB policy, 40 actions, at rest", POLICY, Scene.at_rest),
    Case("4 KB policy, 40 actions, values change", POLICY, Scene.values_change),
    Case("4 KB policy, 40 actions, YAML both ways", POLICY, Scene.both_ways),
    Case("4 KB policy, 40 actions, never seen", POLICY, Scene.never_seen, target=None),
    Case("20 cached lookups, at rest", lookups(20), Scene.at_rest),
    Case("20 cached lookups, YAML both ways", lookups(20), Scene.both_ways),
    Case("200 cached lookups, at rest", lookups(COUNT), Scene.at_rest),
    Case("200 cached lookups, YAML both ways", lookups(COUNT), Scene.both_ways),
    Case("list lookup of 200 cached ConfigMaps", LIST, Scene.values_change),
)


class Peer:
    """The program on go-template-utils, asked over its pipes."""

    def __init__(self) -> None:
        subprocess.run(["make", "-s", "-C", str(PEER)], check=True)
        found = subprocess.run(["make", "-s", "-C", str(PEER), "print-bin"], check=True, capture_output=True, text=True)
        self._process = subprocess.Popen([found.stdout.strip()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer or "panic" in answer:
            raise RuntimeError(f"go-template-utils: {answer}")
        return answer

    def rate(self, document: str, seconds: float) -> float:
        answer = self.ask({"time": resolution(document), "seconds": seconds})
        return float(answer["rounds"]) / float(answer["cpu"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


def resolution(document: str) -> dict[str, Any]:
    return {"raw": document, "strings": {"ManagedClusterName": "cluster1"}, "labels": {"ManagedClusterLabels": LABELS}}


async def rate(operation: Callable[[], Awaitable[object]], seconds: float) -> float:
    """How often per second of processor time."""
    await operation()
    rounds, start, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        await operation()
        rounds += 1
    return rounds / (time.process_time() - used)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    server = ApiServer(ServerConfig(store="memory", clusters=("default",)))
    await server.start()
    client = InProcessClient(server.client(server.clusters["default"]))
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for number in range(COUNT):
        await client.create(CONFIG_MAPS, config_map(number))
    selections = FollowedSelections(client)
    running = asyncio.create_task(selections.run())
    try:
        yield Scene(selections, RESTMapper(client))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await server.stop(grace=0.1)


async def _measured(short: bool) -> list[Row]:
    turns, seconds = (1, 0.02) if short else (8, 0.25)
    rows = []
    peer = Peer()
    try:
        peer.ask({"kinds": KINDS, "objects": [config_map(number) for number in range(COUNT)]})
        async with scene() as ours:
            for case in CASES:
                best, theirs = 0.0, 0.0
                for _ in range(turns):
                    best = max(best, await rate(partial(case.resolve, ours, case.document), seconds))
                    theirs = max(theirs, await asyncio.to_thread(peer.rate, case.document, seconds))
                rows.append(Row(case.title, "per CPU s", best, theirs, target=case.target))
    finally:
        peer.close()
    return rows


def run(short: bool = False) -> list[Row]:
    return asyncio.run(_measured(short))
