"""A cluster reached by a client is seen as it is, and with one's own writes before the watch brings them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.followed import Followed
from muster.fleet.in_process import InProcessClient
from muster.runtime.client.builtin import CONFIG_MAPS, NODES, PODS
from tests.support.stage import pod_manifest


@pytest.fixture
async def client() -> AsyncIterator[InProcessClient]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    yield InProcessClient(server.client(server.clusters["default"]))
    await server.stop(grace=0.1)


@asynccontextmanager
async def following(followed: Followed) -> AsyncIterator[None]:
    task = asyncio.create_task(followed.run())
    await followed.synced()
    yield
    task.cancel()
    await asyncio.wait({task})


async def deaf(client: InProcessClient) -> Followed:
    """It has seen everything once, and hears nothing any more."""
    followed = Followed(client, (CONFIG_MAPS, NODES, PODS))
    async with following(followed):
        return followed


def config_map(value: str) -> dict[str, object]:
    return {"metadata": {"name": "c", "namespace": "default"}, "data": {"k": value}}


async def test_what_one_writes_is_seen_at_once(client: InProcessClient) -> None:
    followed = await deaf(client)
    noting = followed.noting(client)
    await noting.create(CONFIG_MAPS, config_map("1"))
    assert (followed.read(CONFIG_MAPS, "default/c") or {})["data"] == {"k": "1"}
    await noting.patch(CONFIG_MAPS, "c", {"data": {"k": "2"}}, "default")
    assert [one["data"]["k"] for one in followed.scan(CONFIG_MAPS, "default") if one["metadata"]["name"] == "c"] == ["2"]
    await noting.delete(CONFIG_MAPS, "c", "default")
    assert followed.read(CONFIG_MAPS, "default/c") is None
    await noting.create(NODES, {"metadata": {"name": "n"}})
    assert followed.read(NODES, "n") is not None
    await noting.delete(NODES, "n")
    assert list(followed.scan(NODES)) == []


async def test_a_pod_that_is_deleted_stays_until_it_has_ended(client: InProcessClient) -> None:
    followed = await deaf(client)
    noting = followed.noting(client)
    await client.create(NODES, {"metadata": {"name": "n"}})
    await noting.create(PODS, pod_manifest("p", {"name": "c", "image": "i"}, nodeName="n"), "default")
    await noting.delete(PODS, "p", "default")
    assert (followed.read(PODS, "default/p") or {})["metadata"]["deletionTimestamp"]
    await noting.delete(PODS, "p", "default", grace=0)
    assert followed.read(PODS, "default/p") is None


async def test_what_others_do_comes_with_the_watch_and_counts_more_than_older_writes(client: InProcessClient) -> None:
    followed = Followed(client, (CONFIG_MAPS,))
    noting = followed.noting(client)

    async def until(value: str | None) -> None:
        async with asyncio.timeout(20):
            while ((followed.read(CONFIG_MAPS, "default/c") or {}).get("data") or {}).get("k") != value:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async with following(followed):
        await noting.create(CONFIG_MAPS, config_map("mine"))
        await client.patch(CONFIG_MAPS, "c", {"data": {"k": "another's"}}, "default")
        await until("another's")
        await noting.patch(CONFIG_MAPS, "c", {"data": {"k": "mine"}}, "default")
        await client.delete(CONFIG_MAPS, "c", "default")
        await until(None)
