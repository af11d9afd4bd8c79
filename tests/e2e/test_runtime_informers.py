"""The runtime against a server in another process: restarts in the middle, lost history, rotated identities."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.machinery.objects import Object, ObjectKey
from muster.runtime.cache.informer import Informer
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.builtin import CONFIG_MAPS, LEASES, NAMESPACES
from muster.runtime.client.errors import KubeError, NotFound
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.runtime.controller.controller import Controller
from muster.runtime.controller.leader_election import LeaderElector
from tests.support.planes import USERS, ControlPlane


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient(load_kubeconfig(plane.kubeconfig))
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: HttpClient, request: pytest.FixtureRequest) -> str:
    made = await client.create(NAMESPACES, {"metadata": {"generateName": "runtime-"}})
    return str(made["metadata"]["name"])


def config_map(name: str, namespace: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


@asynccontextmanager
async def running(*runners: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def eventually(probe: Any, seconds: float = 30.0) -> Any:
    async with asyncio.timeout(seconds):
        while True:
            if found := probe():
                return found
            await asyncio.sleep(0.02)
    raise AssertionError


async def test_every_verb_does_what_it_says(client: HttpClient, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", namespace, k="1"))
    updated = await client.update(CONFIG_MAPS, {**created, "data": {"k": "2"}})
    assert updated["data"] == {"k": "2"}
    assert (await client.patch(CONFIG_MAPS, "a", [{"op": "add", "path": "/data/j", "value": "3"}], namespace, kind="json"))["data"][
        "j"
    ]
    strategic = await client.patch(CONFIG_MAPS, "a", {"data": {"j": None}}, namespace, kind="strategic")
    assert strategic["data"] == {"k": "2"}
    applied = await client.apply(CONFIG_MAPS, config_map("b", namespace, k="1"), manager="me")
    assert applied["metadata"]["managedFields"][0]["manager"] == "me"
    for number in range(5):
        await client.create(CONFIG_MAPS, config_map(f"c{number}", namespace))
    pages = [len(page.items) async for page in client.pages(CONFIG_MAPS, namespace, limit=3)]
    assert len(pages) > 1
    assert len((await client.list(CONFIG_MAPS, namespace, limit=2)).items) == sum(pages)
    with pytest.raises(KubeError):
        await client.delete(CONFIG_MAPS, "a", namespace, uid="another")
    await client.delete(CONFIG_MAPS, "a", namespace, uid=created["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace)
    assert await client.raw("GET", "/readyz") == b"ok"


async def test_a_cache_survives_a_restart_of_its_server_and_catches_up(
    plane: ControlPlane, client: HttpClient, namespace: str
) -> None:
    await client.create(CONFIG_MAPS, config_map("before", namespace, k="1"))
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, namespace, random=lambda: 0.9)
    reconciled: list[str] = []

    async def reconcile(key: ObjectKey) -> None:
        found = informer.cache.get(key)
        reconciled.append(found.data["data"]["k"] if found and "data" in found.data else "")

    controller = Controller("restart", reconcile)
    controller.watch(informer, lambda snapshot: [snapshot.key] if snapshot.name == "before" else [])
    async with running(informer, controller):
        await asyncio.wait_for(informer.synced(), 30)
        await eventually(lambda: reconciled == ["1"])
        await asyncio.to_thread(plane.restart)
        await client.patch(CONFIG_MAPS, "before", {"data": {"k": "2"}}, namespace)
        await client.create(CONFIG_MAPS, config_map("after", namespace))
        await eventually(lambda: reconciled[-1] == "2" and ObjectKey(namespace, "after") in informer.cache)
    assert reconciled == ["1", "2"]


async def test_a_user_whose_token_is_replaced_is_another_user_at_the_next_request(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(USERS["mallory"].token)
    config = load_kubeconfig(plane.kubeconfig)
    identity = type(config.identity)(token_file=token)
    client = HttpClient(type(config)(config.server, config.ca, identity=identity))
    try:
        with pytest.raises(KubeError, match="mallory"):
            await client.list(CONFIG_MAPS, namespace)
        token.write_text(USERS["admin"].token)
        await client.list(CONFIG_MAPS, namespace)
    finally:
        await client.close()


async def test_leadership_passes_on_over_the_network(client: HttpClient, namespace: str) -> None:
    leading: list[str] = []

    def elector(name: str) -> LeaderElector:
        return LeaderElector(client, "lock", namespace, name, lease_duration=3, renew_deadline=2, retry_period=0.2)

    async def stand(name: str) -> None:
        async def lead() -> None:
            leading.append(name)
            await asyncio.Event().wait()

        await elector(name).run(lead)

    first = asyncio.create_task(stand("first"))
    await eventually(lambda: leading == ["first"])
    second = asyncio.create_task(stand("second"))
    first.cancel()
    await eventually(lambda: leading == ["first", "second"])
    assert (await client.get(LEASES, "lock", namespace))["spec"]["holderIdentity"] == "second"
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
