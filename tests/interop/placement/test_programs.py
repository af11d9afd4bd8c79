"""Random worlds played to the running programs: `muster placement`, and then upstream's, on the same server.

What is chosen must not depend on what was chosen before or on which event came first, or two runs of one program would differ:
there is one placement, nothing is steady, and no taint counts for new clusters alone. So both must come to what the pure choice
says of the world, after every step. `MUSTER_PLACEMENT_WORLDS` says how many worlds are played.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from muster.machinery.objects import GVR, Object, ObjectKey
from muster.runtime.client.errors import Conflict, NotFound
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from tests.interop.placement.verdicts import PlayedWorld, of_choice
from tests.support import peers
from tests.support.choosing import BINDINGS, CLUSTERS, DECISIONS, PLACEMENTS, SATISFIED, SCORES, SETS, Chooser, condition
from tests.support.eventually import eventually
from tests.support.hub_components import PlacementHub
from tests.support.planes import ControlPlane, lent
from tests.support.processes import Server, free_ports
from tests.support.random_placements import NAMESPACES, Life

WORLDS = int(os.environ.get("MUSTER_PLACEMENT_WORLDS", "3"))
KINDS: dict[str, GVR] = {
    "ManagedCluster": CLUSTERS,
    "ManagedClusterSet": SETS,
    "ManagedClusterSetBinding": BINDINGS,
    "AddOnPlacementScore": SCORES,
    "Placement": PLACEMENTS,
}


def timeless(life: Life) -> list[dict[str, Any]] | None:
    """The steps of a life of which only what there is at the end of a step matters; None if its placement makes no sense."""
    steps = []
    for step in life.steps:
        changed = [_timeless(document) for document in step["set"]]
        mine = [document for document in changed if document["kind"] != "Placement" or document["metadata"]["name"] == "p0"]
        steps.append({**step, "set": mine})
    asked = [document for step in steps for document in step["set"] if document["kind"] == "Placement"]
    return steps if all(map(_makes_sense, asked)) else None


def _timeless(document: Object) -> Object:
    match document["kind"]:
        case "ManagedCluster":
            metadata = {key: value for key, value in document["metadata"].items() if key in ("name", "labels")}
            taints = [taint for taint in document["spec"].get("taints", ()) if taint["effect"] != "NoSelectIfNew"]
            return {**document, "metadata": metadata, "spec": {**document["spec"], "taints": taints}}
        case "AddOnPlacementScore":
            return {**document, "status": {"scores": document["status"]["scores"]}}
        case "Placement":
            policy = document["spec"]["prioritizerPolicy"]
            never = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 0}
            spec = {**document["spec"], "prioritizerPolicy": {**policy, "configurations": [*policy["configurations"], never]}}
            return {**document, "spec": spec}
    return document


def _makes_sense(document: Object) -> bool:
    spec = document["spec"]
    known = (1, 2, 5, 100, "1%", "25%", "33%", "50%", "66%", "100%", None)
    if spec["decisionStrategy"]["groupStrategy"].get("clustersPerDecisionGroup") not in known or "Spread" in str(spec):
        return False
    world = PlayedWorld()
    world.set(document)
    key = ObjectKey(document["metadata"]["namespace"], document["metadata"]["name"])
    return world.choose(key, datetime.now(UTC)).misconfigured.status == "False"


class Stage(Chooser):
    """The server, and what is done on it."""

    def __init__(self, plane: ControlPlane, lax: bool) -> None:
        self.lax = lax
        self.admin = HttpClient(load_kubeconfig(plane.cluster.kubeconfig, environ={}))

    async def set(self, document: Object) -> None:
        resource, metadata = KINDS[document["kind"]], document["metadata"]
        if namespace := metadata.get("namespace", ""):
            await self.namespace(namespace)
        body = {"apiVersion": resource.api_version, **document}
        written = await self._written(resource, body, metadata["name"], namespace)
        if "status" in document:
            await self.admin.update(resource, {**written, "status": document["status"]}, subresource="status")

    async def _written(self, resource: GVR, body: Object, name: str, namespace: str) -> Object:
        while True:
            try:
                present = await self.admin.get(resource, name, namespace)
                version = {"resourceVersion": present["metadata"]["resourceVersion"]}
                return await self.admin.update(resource, {**present, **body, "metadata": {**body["metadata"], **version}})
            except NotFound:
                return await self.admin.create(resource, body)
            except Conflict:
                # The program has written its status in between.
                continue

    async def remove(self, kind: str, name: str, namespace: str = "") -> None:
        await self.admin.delete(KINDS[kind], name, namespace)

    async def clear(self) -> None:
        for namespace in NAMESPACES:
            for resource in (PLACEMENTS, BINDINGS, DECISIONS):
                await self.admin.delete_collection(resource, namespace)
        for one in (await self.admin.list(SCORES)).items:
            await self.admin.delete(SCORES, one["metadata"]["name"], one["metadata"]["namespace"])
        for resource in (CLUSTERS, SETS):
            for one in (await self.admin.list(resource)).items:
                await self.admin.delete(resource, one["metadata"]["name"])

    async def seen(self, key: ObjectKey) -> tuple[Any, ...]:
        """Conditions, and groups with their clusters, as status and decisions tell them."""
        found = await self.admin.get(PLACEMENTS, key.name, key.namespace)
        status, decisions = found.get("status") or {}, await self.decisions(key.name, key.namespace)
        said = condition(found, SATISFIED)
        groups = tuple(
            (group.get("decisionGroupName", ""), tuple(name for part in group["decisions"] for name in decisions.get(part, ())))
            for group in status.get("decisionGroups") or ()
        )
        written = {part for group in status.get("decisionGroups") or () for part in group["decisions"]}
        return (said.get("status"), said.get("reason"), said.get("message")), groups, set(decisions) == written


async def played(stage: Stage, steps: list[dict[str, Any]], name: str) -> None:
    world = PlayedWorld()
    key: ObjectKey | None = None
    for step in steps:
        for gone in step["delete"]:
            world.delete(gone)
            await stage.remove(**gone)
        for document in step["set"]:
            if document["kind"] == "Placement":
                # Decisions of a placement that had the name before are nobody's concern.
                document = {**document, "metadata": {**document["metadata"], "name": name}}
                key = ObjectKey(document["metadata"]["namespace"], name)
            world.set(document)
            await stage.set(document)
        assert key is not None, "the first step makes the placement"
        await _agrees(stage, world, key)
    await stage.clear()


_NO_SETS = {"NoManagedClusterSetBindings", "NoIntersection"}
"""Upstream is not woken by bindings of sets that a placement does not ask for, and says the one for the other."""


async def _agrees(stage: Stage, world: PlayedWorld, key: ObjectKey) -> None:
    expected = of_choice(world.choose(key, datetime.now(UTC)))
    wanted = (expected.satisfied, expected.groups, True)
    last: tuple[Any, ...] = ()

    async def look() -> bool:
        nonlocal last
        last = await stage.seen(key)
        return last == wanted or (stage.lax and last[1:] == wanted[1:] and {last[0][1], wanted[0][1]} == _NO_SETS)

    try:
        await eventually(look, f"{key} to be as it is chosen", poll=0.05)
    except AssertionError:
        raise AssertionError(f"{world.placements[key]['spec']}\n  seen     {last}\n  expected {wanted}") from None


@contextmanager
def ours(plane: ControlPlane, directory: Path) -> Iterator[None]:
    hub = PlacementHub(plane.cluster, directory)
    hub.install()
    hub.start()
    try:
        yield
    finally:
        hub.stop()


@contextmanager
def upstream(plane: ControlPlane, directory: Path) -> Iterator[None]:
    (port,) = free_ports(1)
    own = [f"--kubeconfig={plane.cluster.kubeconfig}", "--disable-leader-election", f"--listen=127.0.0.1:{port}"]
    command: list[str | Path] = [peers.need("placement"), "controller", *own, "--kube-api-qps=1000", "--kube-api-burst=1000"]
    server = Server("upstream's placement", command, directory / "upstream.log", {"POD_NAME": "placement", "KUBECONFIG": ""})
    server.start()
    try:
        yield
    finally:
        server.stop(timeout=5)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("worlds"))


@pytest.mark.parametrize("program", [ours, upstream])
async def test_running_programs_choose_as_the_pure_choice_does(program: Any, plane: ControlPlane, tmp_path: Path) -> None:
    if peers.find("placement") is None:
        pytest.skip("upstream's programs are not built: make -C peers ocm")
    stage = Stage(plane, lax=program is upstream)
    for namespace in NAMESPACES:
        await stage.namespace(namespace)
    worlds = ((life.seed, steps) for life in map(Life, count(1)) if life.seed % 40 and (steps := timeless(life)) is not None)
    with program(plane, tmp_path):
        await stage.clear()
        for seed, steps in islice(worlds, WORLDS):
            await played(stage, steps, f"{program.__name__}-{seed}")
    await stage.admin.close()
