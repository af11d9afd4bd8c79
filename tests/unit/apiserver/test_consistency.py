"""Races and half-done work: what must hold when deletions, creations, failures and disconnections meet."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.apiserver.admission.chain import AdmissionChain, Operation
from muster.apiserver.audit import Audit
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.context import Context
from muster.apiserver.errors import ApiError
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.server import ApiServer, ServerConfig
from muster.http import Response
from muster.machinery.objects import Object
from muster.store.datafile import DataFile
from tests.unit.apiserver.conftest import eventually

NAMESPACES = object_path("v1", "namespaces")


def definition(plural: str = "things", kind: str = "Thing") -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]},
    }


DEFINITIONS = object_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
THINGS = object_path("example.com/v1", "things", "default")


def thing(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, **meta}}


async def serve_things(server: ApiServer, client: DirectClient) -> None:
    await client.create(DEFINITIONS, definition())
    await eventually(lambda: server.clusters["default"].resources.get("example.com", "v1", "things"), "things are served")


class SlowAdmission:
    """Holds up the creation of ConfigMaps until told otherwise, as a slow webhook would."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        if operation.name == "CREATE" and resource.storage == "/configmaps" and ctx.username != "system:apiserver":
            self.reached.set()
            await self.go.wait()
        return operation.new


async def test_nothing_is_left_of_a_namespace_that_went_while_an_object_was_being_admitted(
    server: ApiServer, client: DirectClient
) -> None:
    from muster.machinery.authentication import MASTERS, UserInfo

    cluster = server.clusters["default"]
    slow = SlowAdmission()
    cluster.part(AdmissionChain).mutators.append(slow)
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}})
    user = server.client(cluster, UserInfo("user", groups=(MASTERS,)))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    creating = asyncio.create_task(user.create(object_path("v1", "configmaps", "gone"), body))
    await slow.reached.wait()
    await client.delete(f"{NAMESPACES}/gone")
    await eventually(lambda: cluster.entry("/namespaces", "gone") is None, "the namespace goes")
    slow.go.set()
    with pytest.raises(ApiError) as refused:
        await creating
    assert refused.value.code in (403, 404)
    assert cluster.entry("/configmaps", "gone/late") is None


async def test_no_custom_resource_is_created_while_its_definition_goes(server: ApiServer, client: DirectClient) -> None:
    await serve_things(server, client)
    await client.create(THINGS, thing("held", finalizers=["example.com/wait"]))
    await client.delete(f"{DEFINITIONS}/things.example.com")
    with pytest.raises(ApiError) as refused:
        await client.create(THINGS, thing("late"))
    assert refused.value.code == 403
    assert "create not allowed while custom resource definition is terminating" in refused.value.message
    await client.merge(f"{THINGS}/held", {"metadata": {"finalizers": None}})
    await eventually(
        lambda: server.clusters["default"].entry("apiextensions.k8s.io/customresourcedefinitions", "things.example.com") is None,
        "the definition goes",
    )


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {"a": None}},
        {"annotations": {"a": None}},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "blockOwnerDeletion": None}]},
        {"labels": None, "finalizers": None, "ownerReferences": None},
    ],
)
async def test_nulls_in_a_custom_resources_metadata_do_not_poison_its_collection(
    server: ApiServer, client: DirectClient, meta: dict[str, Any]
) -> None:
    await serve_things(server, client)
    await client.create(THINGS, thing("odd", **meta))
    listed = await client.call("GET", THINGS, {"labelSelector": "!b"})
    assert [item["metadata"]["name"] for item in listed["items"]] == ["odd"]
    await client.delete(f"{THINGS}/odd")


async def test_one_controller_that_fails_on_an_event_does_not_hide_it_from_the_others(
    server: ApiServer, client: DirectClient
) -> None:
    class Failing:
        name = "failing"
        resources = ("/namespaces",)

        def keys(self, cluster: Any, event: Any) -> Any:
            raise RuntimeError("a fault in a controller")

    manager = server.controllers
    manager._controllers.append(Failing())  # type: ignore[arg-type]
    manager._by_resource["/namespaces"].insert(0, len(manager._controllers) - 1)
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
    cluster = server.clusters["default"]
    await eventually(lambda: cluster.entry("/serviceaccounts", "new/default"), "the namespace gets its service account")


async def test_a_cluster_asked_for_by_many_at_once_is_made_once(server: ApiServer) -> None:
    made = await asyncio.gather(*(server.add_cluster("fresh") for _ in range(8)))
    assert all(cluster is server.clusters["fresh"] for cluster in made)


async def test_a_removed_cluster_takes_everything_with_it_and_its_name_is_free_again(server: ApiServer) -> None:
    client = server.client(await server.add_cluster("brief"))
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}})
    await client.create(object_path("apiextensions.k8s.io/v1", "customresourcedefinitions"), definition())
    await client.get("/apis")
    await server.remove_cluster("brief")
    assert "brief" not in server.clusters
    assert "brief" not in server.store.clusters()
    again = server.client(await server.add_cluster("brief"))
    with pytest.raises(ApiError) as problem:
        await again.get(object_path("v1", "namespaces", name="mine"))
    assert problem.value.code == 404
    groups = {group["name"] for group in (await again.get("/apis"))["groups"]}
    assert "example.com" not in groups


async def test_requests_for_random_resources_do_not_grow_the_metrics(server: ApiServer, client: DirectClient) -> None:
    for n in range(50):
        await client.send("GET", f"/apis/g{n}.example.com/v1/things{n}")
        await client.send("GET", f"/api/v1/namespaces/default/pods/x/sub{n}")
    assert len(server.metrics.render().splitlines()) < 600


async def test_a_write_whose_client_hung_up_is_still_in_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    server = ApiServer(ServerConfig(store="memory", audit_log=log))
    await server.start()
    cluster = server.clusters["default"]
    slow = SlowAdmission()
    cluster.part(AdmissionChain).mutators.append(slow)
    from muster.machinery.authentication import MASTERS, UserInfo

    user = server.client(cluster, UserInfo("sneaky", groups=(MASTERS,)))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    creating = asyncio.create_task(user.create(object_path("v1", "configmaps", "default"), body))
    await slow.reached.wait()
    creating.cancel()
    await asyncio.gather(creating, return_exceptions=True)
    await server.stop(grace=0.1)
    events = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    assert [event["verb"] for event in events if event["user"]["username"] == "sneaky"] == ["create"]


async def test_an_audit_log_that_cannot_be_written_costs_lines_and_not_memory() -> None:
    audit = Audit(Path("/dev/full"))
    for _ in range(2):
        before = audit.lost
        audit.append({"kind": "Event"})
        await eventually(lambda before=before: audit.lost == before + 1, "the line is given up")  # type: ignore[misc]
    audit.close()


async def test_a_cluster_whose_webhooks_hang_does_not_hold_up_the_controllers_of_others(server: ApiServer) -> None:
    class Hanging:
        async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
            if resource.storage == "/serviceaccounts":
                await asyncio.get_running_loop().create_future()
            return operation.new

    server.clusters["other"].part(AdmissionChain).mutators.append(Hanging())
    hung, client = server.client(server.clusters["other"]), server.client(server.clusters["default"])
    for n in range(20):
        await hung.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{n}"}})
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quick"}})
    await eventually(
        lambda: server.clusters["default"].entry("/serviceaccounts", "quick/default"), "the service account of a healthy cluster"
    )


async def test_a_bootstrap_token_whose_expiration_names_no_zone_is_left_alone(server: ApiServer, client: DirectClient) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": "2020-01-01T00:00:00"},
    }
    await client.create(object_path("v1", "secrets", "kube-system"), secret)
    await eventually(lambda: server.controllers.backlog == 0, "nothing left to do")
    assert not server.controllers._queue._failures


SCALE = object_path("apps/v1", "deployments", "default", "d", "scale")


async def deployed(client: DirectClient) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "y"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    return await client.create(object_path("apps/v1", "deployments", "default"), body)


@pytest.mark.parametrize(
    ("meta", "code"),
    [({"name": "other"}, 400), ({"name": "d", "uid": "another"}, 409), ({"name": "d", "resourceVersion": "1"}, 409)],
)
async def test_a_scale_meant_for_another_object_changes_nothing(client: DirectClient, meta: dict[str, str], code: int) -> None:
    await deployed(client)
    with pytest.raises(ApiError) as refused:
        await client.update(SCALE, {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": {"replicas": 3}})
    assert refused.value.code == code
    assert (await client.get(SCALE))["spec"]["replicas"] == 1


async def test_a_scale_is_patched_only_in_a_form_it_knows(client: DirectClient) -> None:
    await deployed(client)
    with pytest.raises(ApiError) as refused:
        await client.call("PATCH", SCALE, body={"spec": {"replicas": 4}}, media="text/plain")
    assert refused.value.code == 415


async def test_concurrent_patches_of_a_scale_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    server = ApiServer(ServerConfig(store="sqlite", data_dir=tmp_path))
    await server.start()
    client = server.client(server.clusters["default"])
    await deployed(client)
    await asyncio.gather(*(client.merge(SCALE, {"spec": {"replicas": n}}) for n in range(2, 12)))
    await server.stop(grace=0.1)


async def test_descriptions_of_what_all_clusters_serve_are_made_and_kept_once(server: ApiServer) -> None:
    bodies = []
    for name in ("default", "other"):
        answer = await server.client(server.clusters[name]).send("GET", "/openapi/v3/apis/apps/v1")
        assert isinstance(answer, Response)
        bodies.append(answer.body)
    assert bodies[0] is bodies[1]


async def test_a_custom_resource_shows_in_the_description_of_its_own_cluster_only(server: ApiServer, client: DirectClient) -> None:
    await serve_things(server, client)
    assert "/openapi/v3/apis/example.com/v1" in str(await client.get("/openapi/v3"))
    other = server.client(server.clusters["other"])
    assert "example.com/v1" not in str(await other.get("/openapi/v3"))
    assert "com.example.v1.Thing" in (await client.get("/openapi/v2"))["definitions"]
    assert "com.example.v1.Thing" not in (await other.get("/openapi/v2"))["definitions"]


async def test_a_write_that_changes_nothing_is_not_answered_with_a_version_that_never_came_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ApiServer(ServerConfig(store="sqlite", data_dir=tmp_path))
    await server.start()
    client = server.client(server.clusters["default"])
    path = object_path("v1", "configmaps", "default")
    await client.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    await eventually(lambda: server.controllers.backlog == 0, "the server comes to rest")

    def full(self: DataFile, writes: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(DataFile, "write", full)
    patch = {"data": {"k": "v"}}
    outcomes = await asyncio.gather(*(client.merge(f"{path}/a", patch) for _ in range(2)), return_exceptions=True)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, ApiError)] == [500, 500]
    monkeypatch.undo()
    assert "data" not in await client.get(f"{path}/a")
    await server.stop(grace=0.1)


async def test_metrics_tell_how_many_watches_are_open(server: ApiServer, client: DirectClient) -> None:
    def told() -> int:
        lines = server.metrics.render().decode().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("apiserver_longrunning_requests ")))

    watch = client.watch("/api/v1/namespaces", {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
    await anext(watch)
    assert told() == 1
    await watch.aclose()
    await eventually(lambda: told() == 0, "the closed watch is no longer counted")


class Meanwhile:
    """Does something once while the first matching write is being admitted."""

    def __init__(self, operation: str, storage: str, act: Callable[[], Awaitable[object]]) -> None:
        self._concerns = (operation, storage)
        self._act: Callable[[], Awaitable[object]] | None = act

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        if self._act is not None and (operation.name, resource.storage) == self._concerns:
            act, self._act = self._act, None
            await act()
        return operation.new


async def test_an_apply_creates_anew_what_was_deleted_while_it_was_under_way(server: ApiServer, client: DirectClient) -> None:
    maps = object_path("v1", "configmaps", "default")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    first = await client.apply(f"{maps}/a", body, "one")
    chain = server.clusters["default"].part(AdmissionChain)
    chain.mutators.append(Meanwhile("UPDATE", "/configmaps", lambda: client.delete(f"{maps}/a")))
    applied = await client.apply(f"{maps}/a", {**body, "data": {"k": "2"}}, "one")
    assert applied["data"] == {"k": "2"}
    assert applied["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_put_that_would_create_changes_what_somebody_else_made_meanwhile(server: ApiServer, client: DirectClient) -> None:
    limits = object_path("v1", "limitranges", "default")
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a", "labels": {"by": "put"}}, "spec": {"limits": []}}
    other = {**body, "metadata": {"name": "a", "labels": {"by": "other"}}}
    chain = server.clusters["default"].part(AdmissionChain)
    chain.mutators.append(Meanwhile("CREATE", "/limitranges", lambda: client.create(limits, other)))
    assert (await client.update(f"{limits}/a", body))["metadata"]["labels"] == {"by": "put"}


async def test_a_pod_that_is_written_while_it_is_deleted_is_deleted_all_the_same(tmp_path: Path) -> None:
    server = ApiServer(ServerConfig(store="sqlite", data_dir=tmp_path / "data"))
    await server.start()
    client = server.client(server.clusters["default"])
    pods = object_path("v1", "pods", "default")

    async def write(number: int) -> None:
        with contextlib.suppress(ApiError):
            for again in range(20):
                await client.merge(f"{pods}/web/status", {"status": {"message": f"{number}.{again}"}})

    try:
        await eventually(lambda: server.clusters["default"].read("/serviceaccounts", "default/default"), "there is an account")
        for _ in range(5):
            spec = {"containers": [{"name": "main", "image": "any"}], "schedulerName": "nobody"}
            await client.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
            async with asyncio.TaskGroup() as writers:
                for number in range(3):
                    writers.create_task(write(number))
                await asyncio.sleep(0)
                deleted = await client.delete(f"{pods}/web")
                assert deleted["metadata"]["deletionTimestamp"]
    finally:
        await server.stop(grace=0.1)
