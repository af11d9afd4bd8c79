"""ResourceQuotas where much happens at once, and what is given back."""

from __future__ import annotations

import asyncio

import pytest

from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.resource_quotas import ResourceQuotas
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from muster.machinery.objects import Object
from tests.unit.apiserver.conftest import eventually

MAPS = object_path("v1", "configmaps", "default")
QUOTAS = object_path("v1", "resourcequotas", "default")


@pytest.fixture
def cluster(server: ApiServer) -> Cluster:
    return server.clusters["default"]


async def limit(client: DirectClient, cluster: Cluster, **hard: str) -> None:
    await client.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await eventually(lambda: set(used(cluster)) == set(hard), "counted")


def used(cluster: Cluster) -> dict[str, str]:
    quota = cluster.read("/resourcequotas", "default/q") or {}
    found: dict[str, str] = (quota.get("status") or {}).get("used") or {}
    return found


def config_map(name: str) -> Object:
    return {"metadata": {"name": name}}


async def refused(call: asyncio.Future[Object]) -> ApiError | None:
    try:
        await call
    except ApiError as error:
        return error
    return None


async def test_of_many_writes_at_once_no_more_than_allowed_get_through(client: DirectClient, cluster: Cluster) -> None:
    await limit(client, cluster, configmaps="11")  # one is the root CA's
    calls = [asyncio.ensure_future(client.create(MAPS, config_map(f"m{number}"))) for number in range(60)]
    problems = [problem for problem in await asyncio.gather(*(refused(call) for call in calls)) if problem is not None]
    assert len(problems) == 50
    assert {problem.code for problem in problems} == {403}
    assert problems[0].message.endswith("exceeded quota: q, requested: configmaps=1, used: configmaps=11, limited: configmaps=11")
    assert used(cluster) == {"configmaps": "11"}


async def test_a_quota_of_custom_resources(client: DirectClient, cluster: Cluster) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    definition = {
        "metadata": {"name": "things.a.io"},
        "spec": {"group": "a.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await client.create(object_path("apiextensions.k8s.io/v1", "customresourcedefinitions"), definition)
    await eventually(lambda: cluster.resources.by_storage("a.io/things"), "served")
    things = object_path("a.io/v1", "things", "default")
    await client.create(things, {"apiVersion": "a.io/v1", "kind": "Thing", **config_map("a")})
    await limit(client, cluster, **{"count/things.a.io": "2"})
    await client.create(things, {"apiVersion": "a.io/v1", "kind": "Thing", **config_map("b")})
    with pytest.raises(ApiError, match=r"exceeded quota: q, requested: count/things\.a\.io=1"):
        await client.create(things, {"apiVersion": "a.io/v1", "kind": "Thing", **config_map("c")})
    await client.delete(f"{things}/a")
    await eventually(lambda: used(cluster) == {"count/things.a.io": "1"}, "given back")


async def test_what_was_let_in_and_not_stored_is_given_back_when_counted_again(
    server: ApiServer, client: DirectClient, cluster: Cluster
) -> None:
    await limit(client, cluster, configmaps="5")
    await client.create(MAPS, config_map("a"))
    with pytest.raises(ApiError, match="already exists"):
        await client.create(MAPS, config_map("a"))
    assert used(cluster) == {"configmaps": "3"}
    again = await ResourceQuotas(server).reconcile(cluster, "default/q")
    assert used(cluster) == {"configmaps": "2"}
    assert again == 300


async def test_other_namespaces_are_not_counted(client: DirectClient, cluster: Cluster) -> None:
    await limit(client, cluster, configmaps="2")
    await client.create(object_path("v1", "namespaces"), {"metadata": {"name": "team"}})
    for number in range(5):
        await client.create(object_path("v1", "configmaps", "team"), config_map(f"m{number}"))
    await client.create(MAPS, config_map("fits"))
    with pytest.raises(ApiError):
        await client.create(MAPS, config_map("more"))
