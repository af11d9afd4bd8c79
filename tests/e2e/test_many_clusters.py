"""A thousand logical clusters in one process: quick to make, small to keep, and strangers to each other.

The limits are twice the targets and count CPU time, so that a busy machine does not fail them.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer, ServerConfig
from tests.support.sites import embedded_only

pytestmark = embedded_only

COUNT = 1000
AT_ONCE = 50
MOST_CPU_SECONDS = 10.0
MOST_BYTES_EACH = 120 * 1024
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell our memory")


async def add_clusters(server: ApiServer, names: list[str]) -> None:
    for first in range(0, len(names), AT_ONCE):
        await asyncio.gather(*map(server.add_cluster, names[first : first + AT_ONCE]))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(ServerConfig(data_dir=tmp_path))
    await server.start()
    yield server
    await server.stop()


def config_map(text: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"text": text}}


async def test_a_thousand_clusters_are_made_in_bounded_time_and_memory(server: ApiServer) -> None:
    gc.collect()
    memory, clock = resident_bytes(), time.process_time()
    await add_clusters(server, [f"managed-{number}" for number in range(COUNT)])
    assert time.process_time() - clock < MOST_CPU_SECONDS
    assert (resident_bytes() - memory) / COUNT < MOST_BYTES_EACH
    assert len(server.clusters) == COUNT + 1


async def test_clusters_share_what_they_are_born_with_and_nothing_else(server: ApiServer) -> None:
    names = [f"managed-{number}" for number in range(20)]
    await add_clusters(server, names)
    clients = {name: server.client(server.clusters[name]) for name in names}
    for name in names[:10]:
        await clients[name].create(CONFIG_MAPS, config_map(name))

    assert (await clients["managed-3"].get(f"{CONFIG_MAPS}/note"))["data"] == {"text": "managed-3"}
    with pytest.raises(ApiError) as missing:
        await clients["managed-12"].get(f"{CONFIG_MAPS}/note")
    assert missing.value.code == 404
    namespaces = [await clients[name].get("/api/v1/namespaces/default") for name in names]
    assert len({namespace["metadata"]["uid"] for namespace in namespaces}) == len(names)

    await clients["managed-1"].delete("/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
    with pytest.raises(ApiError):
        await clients["managed-1"].get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
    assert (await clients["managed-2"].get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view"))["rules"]


async def test_a_cluster_added_while_serving_is_there_after_a_restart(tmp_path: Path) -> None:
    first = ApiServer(ServerConfig(data_dir=tmp_path))
    await first.start()
    cluster = await first.add_cluster("late")
    await first.client(cluster).create(CONFIG_MAPS, config_map("kept"))
    await first.stop()

    second = ApiServer(ServerConfig(data_dir=tmp_path))
    await second.start()
    try:
        kept = await second.client(second.clusters["late"]).get(f"{CONFIG_MAPS}/note")
        assert kept["data"] == {"text": "kept"}
    finally:
        await second.stop()


async def test_two_requests_that_add_the_same_cluster_get_the_same_one(server: ApiServer) -> None:
    one, other = await asyncio.gather(server.add_cluster("twin"), server.add_cluster("twin"))
    assert one is other is server.clusters["twin"]
