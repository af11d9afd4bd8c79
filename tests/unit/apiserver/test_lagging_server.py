"""One of several servers on a database, a moment behind the others: what another server acknowledged is never denied here."""

from collections.abc import AsyncIterator

import pytest

from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer, ServerConfig
from muster.store.api import EncodeAt, Entry
from muster.store.memory import MemoryStore

CONFIG_MAPS = object_path("v1", "configmaps", "default")


class LaggingStore(MemoryStore):
    """Shows some keys as they were, until somebody waits for the newest state or a write settles."""

    def __init__(self) -> None:
        super().__init__()
        self.behind: dict[tuple[str, str], Entry | None] = {}

    @property
    def revision(self) -> int:
        return super().revision - len(self.behind)

    def get(self, cluster: str, resource: str, key: str) -> Entry | None:
        if (resource, key) in self.behind:
            return self.behind[resource, key]
        return super().get(cluster, resource, key)

    async def synced(self) -> None:
        self.behind.clear()

    async def commit(
        self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int = -1, delete: bool = False
    ) -> Entry:
        self.behind.clear()
        return await super().commit(cluster, resource, key, encode, expect, delete)


@pytest.fixture
async def store() -> LaggingStore:
    return LaggingStore()


@pytest.fixture
async def client(store: LaggingStore) -> AsyncIterator[DirectClient]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0), store)
    await server.start()
    yield server.client(server.clusters["default"])
    await server.stop(grace=0.1)


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def test_what_was_just_created_elsewhere_can_be_patched_and_deleted(store: LaggingStore, client: DirectClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    store.behind["/configmaps", "default/a"] = None
    assert (await client.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}))["data"] == {"k": "v"}
    store.behind["/configmaps", "default/a"] = None
    await client.delete(f"{CONFIG_MAPS}/a")
    with pytest.raises(ApiError) as missing:
        await client.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    assert missing.value.code == 404


async def test_a_replacement_of_the_newest_version_is_no_conflict(store: LaggingStore, client: DirectClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    old = store.get("default", "/configmaps", "default/a")
    newest = await client.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    store.behind["/configmaps", "default/a"] = old
    assert (await client.update(f"{CONFIG_MAPS}/a", {**newest, "data": {"k": "w"}}))["data"] == {"k": "w"}


async def test_a_deletion_with_the_newest_version_as_precondition_is_no_conflict(store: LaggingStore, client: DirectClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    old = store.get("default", "/configmaps", "default/a")
    newest = await client.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    store.behind["/configmaps", "default/a"] = old
    await client.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"resourceVersion": newest["metadata"]["resourceVersion"]}})


async def test_a_namespace_just_created_elsewhere_takes_content(store: LaggingStore, client: DirectClient) -> None:
    await client.create(object_path("v1", "namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
    store.behind["/namespaces", "new"] = None
    assert (await client.create(object_path("v1", "configmaps", "new"), config_map("a")))["metadata"]["namespace"] == "new"
