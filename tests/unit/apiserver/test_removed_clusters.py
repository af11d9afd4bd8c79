"""A cluster that is removed is gone with all the server knew of it, and one that is made anew under its name is a new one."""

from __future__ import annotations

import gc
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import ref

import pytest

from muster.apiserver.controllers import expiry
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import GVR
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.holdings import grown, holdings
from tests.support.in_process import serving
from tests.unit.apiserver.conftest import eventually

EVENTS = GVR("v1", "events", "Event")
CLUSTER_ROLES = GVR("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
MANY = 20


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, **more}


async def furnished(server: ApiServer, name: str) -> ref[Any]:
    """A cluster with something for every controller that remembers things."""
    cluster = await server.add_cluster(name)
    client = InProcessClient(server.client(cluster))
    owner = await client.create(CONFIG_MAPS, named("owner"))
    dependent = named("dependent")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    dependent["metadata"]["ownerReferences"] = [reference]
    await client.create(CONFIG_MAPS, dependent)
    await client.create(EVENTS, named("event", involvedObject={"namespace": "default"}))
    rule = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    await client.create(CLUSTER_ROLES, {"metadata": {"name": "gathers"}, "aggregationRule": rule})
    await client.raw("GET", "/apis")
    await eventually(lambda: not server.controllers.backlog, "the controllers to rest")
    return ref(cluster)


async def test_nothing_of_removed_clusters_stays(server: ApiServer) -> None:
    await furnished(server, "first")
    before = holdings(server.store)
    removed = []
    for number in range(MANY):
        removed.append(await furnished(server, f"brief{number}"))
        await server.remove_cluster(f"brief{number}")
    await furnished(server, "last")
    gc.collect()
    assert [one() for one in removed] == [None] * MANY
    assert "Bucket.entries" not in grown(before, holdings(server.store), MANY)


async def test_events_go_after_their_time_also_in_a_cluster_that_was_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "_SWEEP_INTERVAL", 0.01)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    async with serving("default", clock=lambda: now) as server:
        for _ in ("new", "anew"):
            await furnished(server, "brief")
            assert server.store.count("brief", "/events") == 1
            now += expiry.EVENT_LIFETIME + timedelta(seconds=1)
            await eventually(lambda: not server.store.count("brief", "/events"), "the event to go")
            client = InProcessClient(server.client(server.clusters["brief"]))
            await client.create(EVENTS, named("later", involvedObject={"namespace": "default"}))
            await eventually(lambda: not server.controllers.backlog, "the controllers to rest")
            await server.remove_cluster("brief")
