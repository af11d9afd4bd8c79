"""A dry run asks the server about every write and changes nothing there; what it would have made can be read back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.administration.dryrun import Journal, JournalingClient, is_dry_run
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR, Object
from muster.runtime.client import DelegatingClient, Send, Write
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES, SECRETS
from muster.runtime.client.errors import Forbidden, Invalid, NotFound, StatusError

WIDGETS = GVR("example.io/v1", "widgets", "Widget", namespaced=False)
DEFINITION = {
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Cluster",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    },
}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, port=0))
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def admin(server: ApiServer) -> InProcessClient:
    return InProcessClient(server.client(server.clusters["default"]))


async def revision(client: InProcessClient) -> str:
    """Of the whole store, once the server has made what every cluster has."""
    found = await client.list(CONFIG_MAPS)
    while {item["metadata"]["namespace"] for item in found.items} < {"default", "kube-public", "kube-system", "kube-node-lease"}:
        await asyncio.sleep(0.01)
        found = await client.list(CONFIG_MAPS)
    return found.resource_version


def config_map(name: str, namespace: str = "default") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": "b"}}


async def test_nothing_is_stored_by_any_verb(admin: InProcessClient) -> None:
    await admin.create(CONFIG_MAPS, config_map("there"))
    before = await revision(admin)
    client = JournalingClient(admin, Journal(), dry_run=True)
    await client.create(CONFIG_MAPS, config_map("made"))
    await client.apply(CONFIG_MAPS, config_map("applied"), manager="m")
    await client.patch(CONFIG_MAPS, "there", {"data": {"a": "c"}}, "default")
    await client.delete(CONFIG_MAPS, "there", "default")
    await client.delete_collection(CONFIG_MAPS, "default")
    assert await revision(admin) == before
    assert [str(write) for write in client.journal.writes] == [
        "create configmaps default/made",
        "apply configmaps default/applied",
        "patch configmaps default/there",
        "delete configmaps default/there",
        "delete configmaps default/",
    ]
    assert is_dry_run(client)
    assert not is_dry_run(admin)


async def test_what_would_be_there_can_be_read_and_what_would_be_gone_cannot(admin: InProcessClient) -> None:
    await admin.create(CONFIG_MAPS, config_map("there"))
    client = JournalingClient(admin, Journal(), dry_run=True)
    await client.create(CONFIG_MAPS, config_map("made"))
    await client.patch(CONFIG_MAPS, "there", {"data": {"a": "c"}}, "default")
    assert (await client.get(CONFIG_MAPS, "made", "default"))["data"] == {"a": "b"}
    assert (await client.get(CONFIG_MAPS, "there", "default"))["data"] == {"a": "c"}
    await client.delete(CONFIG_MAPS, "there", "default")
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "there", "default")


async def test_what_is_changed_after_it_was_read_or_written_is_not_written(admin: InProcessClient) -> None:
    client = JournalingClient(admin, Journal(), dry_run=True)
    wanted = config_map("made")
    answer = await client.create(CONFIG_MAPS, wanted)
    for mine in (wanted, answer, await client.get(CONFIG_MAPS, "made", "default")):
        mine["data"]["a"] = "changed"
    assert (await client.get(CONFIG_MAPS, "made", "default"))["data"] == {"a": "b"}
    assert client.journal.documents()[0]["data"] == {"a": "b"}


async def test_what_needs_a_namespace_or_definition_of_the_same_run_is_taken_as_given(admin: InProcessClient) -> None:
    client = JournalingClient(admin, Journal(), dry_run=True)
    await client.apply(NAMESPACES, {"metadata": {"name": "new"}}, manager="m")
    await client.apply(CONFIG_MAPS, config_map("first", "new"), manager="m")
    await client.patch(CONFIG_MAPS, "first", {"data": {"c": "d"}}, "new")
    assert (await client.get(CONFIG_MAPS, "first", "new"))["data"] == {"a": "b", "c": "d"}
    await client.apply(CRDS, DEFINITION, manager="m")
    await client.apply(WIDGETS, {"metadata": {"name": "one"}}, manager="m")
    with pytest.raises(NotFound):
        await client.create(CONFIG_MAPS, config_map("lost", "elsewhere"))
    assert [document["metadata"]["name"] for document in client.journal.documents()] == [
        "new",
        "first",
        "widgets.example.io",
        "one",
    ]


class WithoutDryRuns(DelegatingClient):
    """As gRPC is."""

    async def write(self, write: Write, send: Send, dry_run: bool) -> Object:
        if dry_run:
            raise StatusError(405, "MethodNotAllowed", "dry runs do not go this way")
        return await send(dry_run)


async def test_what_cannot_be_asked_on_this_way_is_taken_as_given_and_not_sent(admin: InProcessClient) -> None:
    await admin.create(CONFIG_MAPS, config_map("there"))
    before = await revision(admin)
    journal = Journal()
    client = JournalingClient(WithoutDryRuns(admin), journal, dry_run=True)
    found = await client.get(CONFIG_MAPS, "there", "default")
    found["data"] = {"a": "c"}
    assert (await client.update(CONFIG_MAPS, found))["data"] == {"a": "c"}
    assert [write.verb for write in journal.writes] == ["update"]
    assert await revision(admin) == before


async def test_the_server_still_refuses_what_it_would_refuse(server: ApiServer, admin: InProcessClient) -> None:
    client = JournalingClient(admin, Journal(), dry_run=True)
    with pytest.raises(Invalid):
        await client.create(CONFIG_MAPS, config_map("Not A Name"))
    nobody = InProcessClient(server.client(server.clusters["default"], UserInfo("nobody")))
    with pytest.raises(Forbidden):
        await JournalingClient(nobody, Journal(), dry_run=True).create(CONFIG_MAPS, config_map("x"))
    assert not client.journal.writes


async def test_without_dry_run_writes_go_through_and_are_noted(admin: InProcessClient) -> None:
    client = JournalingClient(admin, Journal())
    await client.apply(SECRETS, {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": "hush"}}, manager="m")
    assert (await admin.get(SECRETS, "s", "default"))["data"]
    (document,) = client.journal.documents()
    assert document["stringData"] == {"k": "hush"}


async def test_a_deletion_that_is_only_tried_deletes_nothing(admin: InProcessClient) -> None:
    await admin.create(CONFIG_MAPS, config_map("there"))
    await admin.delete(CONFIG_MAPS, "there", "default", dry_run=True)
    assert await admin.get(CONFIG_MAPS, "there", "default")
