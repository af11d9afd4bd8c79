"""Followed selections of a server in another process: rights by name, a server that goes and comes back, watches that end."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from muster.machinery.objects import GVR, Object
from muster.runtime.cache import FollowedSelections, Selection
from muster.runtime.client import Forbidden, HttpClient, Unreachable, load_kubeconfig
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from tests.support import planes
from tests.support.eventually import eventually
from tests.support.planes import USERS, ControlPlane

RBAC = "rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = GVR(RBAC, "roles", "Role"), GVR(RBAC, "rolebindings", "RoleBinding")
MALLORY = next(user for user in USERS.values() if user.name == "mallory")
WATCHES = 100


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient(load_kubeconfig(plane.kubeconfig))
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: HttpClient) -> str:
    made = await client.create(NAMESPACES, {"metadata": {"generateName": "selections-"}})
    return str(made["metadata"]["name"])


@pytest.fixture
async def limited(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[HttpClient]:
    planes.write_kubeconfig(tmp_path / "limited", plane.url, plane.ca, {"token": MALLORY.token})
    client = HttpClient(load_kubeconfig(tmp_path / "limited"))
    yield client
    await client.close()


async def permit(client: HttpClient, namespace: str, verbs: list[str], name: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs, "resourceNames": [name]}]
    metadata = {"name": "reader", "namespace": namespace}
    await client.apply(ROLES, {"metadata": metadata, "rules": rules}, manager="test")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY.name}]
    await client.apply(BINDINGS, {"metadata": metadata, "roleRef": role, "subjects": subjects}, manager="test")


def config_map(name: str, namespace: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


async def test_rights_by_name_suffice_and_what_is_missing_is_named(client: HttpClient, limited: HttpClient, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("settings", namespace, k="1"))
    selection, told = Selection(CONFIG_MAPS, namespace, "settings"), list[str]()
    selections = FollowedSelections(limited)
    selections.on_change(told.append)
    running = asyncio.create_task(selections.run())

    async def refused() -> str:
        with pytest.raises(Forbidden) as caught:
            await selections.read("p", selection)
        return str(caught.value)

    try:
        assert 'cannot list resource "configmaps"' in await refused()
        await permit(client, namespace, ["get", "list"], "settings")

        async def cannot_watch() -> bool:
            return 'cannot watch resource "configmaps"' in await refused()

        await eventually(cannot_watch, "the right to list")
        told.clear()
        await permit(client, namespace, ["list", "watch"], "settings")

        async def heard() -> bool:
            return bool(told)

        async def granted() -> Object | None:
            try:
                (found,) = await selections.read("p", selection)
            except Forbidden:
                return None
            return found

        found = await eventually(granted, "the right to watch")
        assert found["data"] == {"k": "1"}
        await eventually(heard, "word of what was refused")
        assert "managedFields" not in found["metadata"]
        told.clear()
        await client.delete(CONFIG_MAPS, "settings", namespace)
        await eventually(heard, "the deletion")
        assert await selections.read("p", selection) == ()
    finally:
        running.cancel()


async def test_a_hundred_watches_outlast_their_server(tmp_path: Path) -> None:
    """A server of its own: it is killed."""
    plane = planes.chosen(tmp_path / "plane")
    await asyncio.to_thread(plane.start)
    client = HttpClient(load_kubeconfig(plane.kubeconfig))
    selections, told = FollowedSelections(client), set[str]()
    selections.on_change(told.add)
    running = asyncio.create_task(selections.run())
    try:
        chosen = {f"p{number}": Selection(CONFIG_MAPS, "default", f"c{number}") for number in range(WATCHES)}
        for follower, selection in chosen.items():
            assert await selections.read(follower, selection) == ()
        with structlog.testing.capture_logs() as lines:
            await asyncio.to_thread(plane.stop, kill=True)

            async def noticed() -> bool:
                return client.gate.error is not None

            await eventually(noticed, "the outage")
            sent, began = client.requests, time.monotonic()
            await asyncio.sleep(2)
            assert client.requests - sent <= 3, "one probe at a time, later and later"
            assert await selections.read("p7", chosen["p7"]) == ()
            with pytest.raises(Unreachable):
                await selections.read("new", Selection(CONFIG_MAPS, "default", "new"))
            assert time.monotonic() - began < 3
            await asyncio.to_thread(plane.start)
            back = time.monotonic()

            async def heard() -> bool:
                return "new" in told

            await eventually(heard, "the server to be back", timeout=20)
            assert time.monotonic() - back < 20
            told.clear()
            await client.create(CONFIG_MAPS, config_map("c7", "default"))

            async def change_told() -> bool:
                return "p7" in told

            await eventually(change_told, "the change", timeout=5)
        outage = [line for line in lines if line["log_level"] in ("warning", "info", "error")]
        assert [line["event"] for line in outage] == ["server unreachable", "server reachable again"]
        for follower in (*chosen, "new"):
            selections.forget(follower)

        async def dropped() -> bool:
            return selections.watches == 0

        await eventually(dropped, "the watches to end", timeout=10)
    finally:
        running.cancel()
        await client.close()
        await asyncio.to_thread(plane.stop, kill=True)
