"""The in-process client goes through the same pipeline as a socket: identity, rules, storage, watches."""

import asyncio

import pytest

from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from muster.machinery.authentication import UserInfo

CONFIG_MAPS = object_path("v1", "configmaps", "default")


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_what_is_created_can_be_read_updated_and_deleted(client: DirectClient) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", k="1"))
    assert created["metadata"]["uid"]
    patched = await client.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}})
    assert int(patched["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    assert (await client.get(f"{CONFIG_MAPS}/a"))["data"] == {"k": "2"}
    await client.delete(f"{CONFIG_MAPS}/a")
    with pytest.raises(ApiError) as missing:
        await client.get(f"{CONFIG_MAPS}/a")
    assert missing.value.code == 404


async def test_a_pod_refused_before_it_has_a_name_is_called_by_what_its_name_begins_with(client: DirectClient) -> None:
    spec = {"serviceAccountName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    with pytest.raises(ApiError) as refused:
        await client.create(object_path("v1", "pods", "default"), {"metadata": {"generateName": "web-"}, "spec": spec})
    assert refused.value.message.startswith('pods "web-" is forbidden: error looking up service account default/nobody')


async def test_a_write_that_changes_nothing_keeps_its_revision(client: DirectClient) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", k="1"))
    same = await client.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "1"}})
    assert same["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_a_stale_replacement_is_a_conflict(client: DirectClient) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", k="1"))
    await client.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}})
    with pytest.raises(ApiError) as stale:
        await client.update(f"{CONFIG_MAPS}/a", created)
    assert (stale.value.code, stale.value.reason) == (409, "Conflict")


async def test_concurrent_patches_all_count(client: DirectClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    await asyncio.gather(*(client.merge(f"{CONFIG_MAPS}/a", {"data": {f"k{i}": "x"}}) for i in range(50)))
    assert len((await client.get(f"{CONFIG_MAPS}/a"))["data"]) == 50


async def test_a_watch_sees_every_change_once_and_in_order(client: DirectClient) -> None:
    seen: list[tuple[str, str]] = []
    start = (await client.get(CONFIG_MAPS))["metadata"]["resourceVersion"]

    async def follow() -> None:
        async for kind, obj in client.watch(CONFIG_MAPS, {"labelSelector": "watched", "resourceVersion": start}):
            seen.append((kind, obj["data"]["n"]))
            if kind == "DELETED":
                return

    follower = asyncio.create_task(follow())
    labelled = config_map("a", n="0")
    labelled["metadata"]["labels"] = {"watched": "yes"}  # type: ignore[index]
    await client.create(CONFIG_MAPS, labelled)
    for n in range(1, 20):
        await client.merge(f"{CONFIG_MAPS}/a", {"data": {"n": str(n)}})
    await client.delete(f"{CONFIG_MAPS}/a")
    async with asyncio.timeout(20):
        await follower
    assert seen == [("ADDED", "0"), *(("MODIFIED", str(n)) for n in range(1, 20)), ("DELETED", "19")]


async def test_a_user_without_permissions_may_not_read(server: ApiServer) -> None:
    mallory = server.client(server.clusters["default"], UserInfo("mallory", groups=("system:authenticated",)))
    with pytest.raises(ApiError) as refused:
        await mallory.get(f"{CONFIG_MAPS}/kube-root-ca.crt")
    assert refused.value.code == 403
    assert 'User "mallory" cannot get resource "configmaps"' in refused.value.message


async def test_a_grant_takes_effect_at_once_and_so_does_its_end(server: ApiServer, client: DirectClient) -> None:
    alice = server.client(server.clusters["default"], UserInfo("alice", groups=("system:authenticated",)))
    bindings = object_path("rbac.authorization.k8s.io/v1", "rolebindings", "default")
    binding = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    await client.create(bindings, binding)
    assert (await alice.get(CONFIG_MAPS))["kind"] == "ConfigMapList"
    await client.delete(f"{bindings}/alice")
    with pytest.raises(ApiError):
        await alice.get(CONFIG_MAPS)


async def test_clusters_do_not_see_each_other(server: ApiServer, client: DirectClient) -> None:
    await client.create(CONFIG_MAPS, config_map("mine"))
    with pytest.raises(ApiError):
        await server.client(server.clusters["other"]).get(f"{CONFIG_MAPS}/mine")


async def test_bootstrap_objects_have_an_identity_per_cluster_that_lasts(server: ApiServer, client: DirectClient) -> None:
    path = object_path("v1", "namespaces", "", "kube-system")
    first = (await client.get(path))["metadata"]["uid"]
    other = (await server.client(server.clusters["other"]).get(path))["metadata"]["uid"]
    assert first != other
    assert (await client.get(path))["metadata"]["uid"] == first


async def test_pages_show_one_state_whatever_happens_between_them(client: DirectClient) -> None:
    for n in range(10):
        await client.create(CONFIG_MAPS, config_map(f"p{n}"))
    first = await client.call("GET", CONFIG_MAPS, {"limit": "4"})
    await client.delete(f"{CONFIG_MAPS}/p9")
    await client.create(CONFIG_MAPS, config_map("p99"))
    names = [item["metadata"]["name"] for item in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        page = await client.call("GET", CONFIG_MAPS, {"limit": "4", "continue": token})
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
    assert names == ["kube-root-ca.crt", *(f"p{n}" for n in range(10))]
