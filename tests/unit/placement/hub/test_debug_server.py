"""P13: the debug service tells why a placement chooses as it does, to whoever may see placements there and to nobody else."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object
from muster.placement.hub.debug_server import MAX_BODY, DebugOptions
from muster.placement.hub.install import install
from muster.placement.hub.manager import PlacementManager
from muster.runtime.client.builtin import CLUSTER_ROLES, ROLE_BINDINGS
from tests.support.choosing import NS, labelled
from tests.support.eventually import eventually
from tests.unit.placement.hub.conftest import OPTIONS, Life, Site

RBAC = "rbac.authorization.k8s.io"
TOKENS = {name: UserInfo(name, groups=("system:authenticated",)) for name in ("viewer", "author", "stranger")}


class Debugged(Site):
    port: int

    async def ask(self, path: str, *, who: str = "", method: str = "GET", body: Any = None) -> tuple[int, Object]:
        """The status and what was answered."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {who}-token"} if who else {}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data, headers, method=method)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        def send() -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()

        status, content = await asyncio.to_thread(send)
        return status, json.loads(content) if content.startswith(b"{") else {"text": content.decode()}

    async def let(self, name: str, verb: str) -> None:
        rule = {"apiGroups": ["cluster.open-cluster-management.io"], "resources": ["placements"], "verbs": [verb]}
        await self.admin.apply(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]}, manager="test")
        subject = {"apiGroup": RBAC, "kind": "User", "name": name}
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name, "namespace": NS}, "roleRef": reference, "subjects": [subject]}
        await self.admin.apply(ROLE_BINDINGS, binding, manager="test")


@pytest.fixture
async def site() -> AsyncIterator[Debugged]:
    tokens = {f"{name}-token": user for name, user in TOKENS.items()}
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",), static_tokens=tokens))
    await server.start()
    site = Debugged(server)
    await install(site.admin, OPTIONS)
    await site.namespace(NS)
    await site.cluster_set("all")
    await site.bind("all")
    await site.let("viewer", "get")
    await site.let("author", "create")
    manager = PlacementManager(site.own(Life()), OPTIONS, metrics=site.metrics, debug=DebugOptions("127.0.0.1", 0))
    task = asyncio.create_task(manager.run())
    await manager.synced()

    async def listening() -> int:
        return manager.debug_server.port if manager.debug_server else 0

    site.port = await eventually(listening, "the debug service to listen", poll=0.01)
    for name, labels in (("c1", {"env": "prod"}), ("c2", {"env": "prod"}), ("c3", {})):
        await site.cluster(name, **labels)
    await site.cluster("c4", taints=[{"key": "down", "effect": "NoSelect"}], env="prod")
    await site.place("p", numberOfClusters=1, predicates=labelled(env="prod"))
    await site.until_chosen("p", "c1")
    yield site
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.stop(grace=0.1)


async def test_it_tells_of_each_filter_and_each_prioritizer(site: Debugged) -> None:
    status, told = await site.ask(f"/debug/placements/{NS}/p", who="viewer")
    assert status == 200
    assert told["placement"]["metadata"]["name"] == "p"
    assert told["filteredPipelineResults"] == [
        {"name": "Predicate", "filteredClusters": ["c1", "c2", "c4"]},
        {"name": "Predicate,TaintToleration", "filteredClusters": ["c1", "c2"]},
    ]
    scores = {one["name"]: (one["weight"], one["scores"]) for one in told["prioritizeResults"]}
    assert scores == {"Balance": (1, {"c1": 100, "c2": 100}), "Steady": (1, {"c1": 100, "c2": 0})}
    assert told["aggregatedScores"] == [{"clusterName": "c1", "score": 200}, {"clusterName": "c2", "score": 100}]
    assert "error" not in told


async def test_a_placement_that_is_only_thought_of_is_explained_too(site: Debugged) -> None:
    thought = {"kind": "Placement", "metadata": {"name": "q", "namespace": NS}, "spec": {"predicates": labelled(env="none")}}
    status, told = await site.ask("/debug/placements/", who="author", method="POST", body=thought)
    assert status == 200
    assert told["filteredPipelineResults"][0] == {"name": "Predicate", "filteredClusters": []}
    thought["spec"] = {"numberOfClusters": -1}
    status, told = await site.ask("/debug/placements/", who="author", method="POST", body=thought)
    assert (status, "numberOfClusters" in told["error"]) == (200, True)


THOUGHT = {"metadata": {"name": "q", "namespace": NS}, "spec": {}}


@pytest.mark.parametrize(
    ("path", "who", "method", "body", "status"),
    [
        (f"/debug/placements/{NS}/p", "", "GET", None, 401),
        (f"/debug/placements/{NS}/p", "unheard", "GET", None, 401),
        (f"/debug/placements/{NS}/p", "stranger", "GET", None, 403),
        (f"/debug/placements/{NS}/p", "author", "GET", None, 403),
        ("/debug/placements/other/p", "viewer", "GET", None, 403),
        (f"/debug/placements/{NS}/nobody", "stranger", "GET", None, 403),
        (f"/debug/placements/{NS}/nobody", "viewer", "GET", None, 404),
        ("/debug/placements/", "viewer", "GET", None, 400),
        (f"/debug/placements/{NS}/p/more", "viewer", "GET", None, 400),
        ("/metrics", "viewer", "GET", None, 404),
        (f"/debug/placements/{NS}/p", "viewer", "DELETE", None, 405),
        ("/debug/placements/", "", "POST", THOUGHT, 401),
        ("/debug/placements/", "viewer", "POST", THOUGHT, 403),
        ("/debug/placements/", "author", "POST", {**THOUGHT, "metadata": {"name": "q", "namespace": "other"}}, 403),
        ("/debug/placements/", "author", "POST", {"metadata": {"name": "q"}, "spec": {}}, 400),
        ("/debug/placements/", "author", "POST", {**THOUGHT, "kind": "Secret"}, 400),
        ("/debug/placements/", "author", "POST", {**THOUGHT, "spec": {"predicates": 7}}, 400),
        ("/debug/placements/", "author", "POST", b"[1]", 400),
        ("/debug/placements/", "author", "POST", b"{", 400),
        ("/debug/placements/", "author", "POST", b" " * (MAX_BODY + 1), 413),
    ],
)
async def test_who_may_not_or_asks_wrongly_is_told_so_and_nothing_else(
    site: Debugged, path: str, who: str, method: str, body: Any, status: int
) -> None:
    found, told = await site.ask(path, who=who, method=method, body=body)
    assert found == status
    assert "c1" not in json.dumps(told)
    assert "-token" not in json.dumps(told)
