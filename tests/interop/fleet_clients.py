"""Python's Kubernetes clients on a fleet: run in `.venv-clients`, where nothing of ours is.

    .venv-clients/bin/python tests/interop/fleet_clients.py CLIENT KUBECONFIG

The kubeconfig has the contexts `hub` and `cluster1`, where images are simulated. Each client works in a namespace of its own. One
line of JSON for each thing tried says how it went: `yes`, `refused` for exec, whose refusal is what is looked for, or `no`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, ClassVar

IMAGE = "shop.example/till:1"
LOGGED = f'simulated: image "{IMAGE}" does not run here'
GROUP = "shops.example.com"
CLUSTERS = "cluster.open-cluster-management.io/v1"
WORKS = "work.open-cluster-management.io/v1"
SECONDS = 30


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    about = {"name": name, "namespace": namespace, "labels": {"tried": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


def work(name: str) -> dict[str, Any]:
    manifest = config_map(name, "default", by="work")
    spec = {"workload": {"manifests": [manifest]}}
    return {"apiVersion": WORKS, "kind": "ManifestWork", "metadata": {"name": name, "namespace": "cluster1"}, "spec": spec}


def pod(namespace: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "till", "image": IMAGE}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "till", "namespace": namespace}, "spec": spec}


def eventually(true: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.1)
    return found


@contextmanager
def refusal(kind: type[Exception], code: int, read: Callable[[Any], int]) -> Iterator[None]:
    """The client raises its own error, with the server's code."""
    try:
        yield
    except kind as error:
        if read(error) != code:
            raise
    else:
        raise AssertionError(f"nothing was refused with {code}")


@contextmanager
def refused_exec() -> Iterator[None]:
    """A handshake that fails is the error of each client's own library for WebSockets; all name the code."""
    try:
        yield
    except Exception as error:
        if "501 Not Implemented" not in str(error):
            raise
    else:
        raise AssertionError("exec was not refused")


class Trial:
    """What one client is tried with; each method is a column of the page."""

    package: ClassVar[str]

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = f"by-{type(self).__name__.lower()}"


class Kubernetes(Trial):
    package = "kubernetes"

    def __init__(self, kubeconfig: str) -> None:
        from kubernetes.client import ApiException, CoreV1Api
        from kubernetes.config import new_client_from_config
        from kubernetes.dynamic import DynamicClient

        super().__init__(kubeconfig)
        self.hub = new_client_from_config(kubeconfig, "hub")
        self.cluster = new_client_from_config(kubeconfig, "cluster1")
        self.core, self.dynamic, self.error = CoreV1Api(self.cluster), DynamicClient(self.cluster), ApiException
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        self.core.create_namespaced_pod(self.namespace, pod(self.namespace))

    def refused(self, code: int) -> Any:
        return refusal(self.error, code, lambda error: int(error.status))

    def discovery(self) -> None:
        from kubernetes.client import ApisApi, VersionApi
        from kubernetes.dynamic import DynamicClient

        assert VersionApi(self.hub).get_code().git_version.startswith("v1.35")
        assert "work.open-cluster-management.io" in {group.name for group in ApisApi(self.hub).get_api_versions().groups}
        clusters = DynamicClient(self.hub).resources.get(api_version=CLUSTERS, kind="ManagedCluster")
        assert [one.metadata.name for one in clusters.get().items] == ["cluster1"]

    def crud(self) -> None:
        core, where = self.core, self.namespace
        made = core.create_namespaced_config_map(where, config_map("one", where, a="1"))
        with self.refused(409):
            core.create_namespaced_config_map(where, config_map("one", where))
        made.data["b"] = "2"
        assert core.replace_namespaced_config_map("one", where, made).data == {"a": "1", "b": "2"}
        with self.refused(409):
            core.replace_namespaced_config_map("one", where, made)
        core.create_namespaced_config_map(where, config_map("two", where))
        first = core.list_namespaced_config_map(where, label_selector="tried=yes", limit=1)
        rest = core.list_namespaced_config_map(where, label_selector="tried=yes", _continue=first.metadata._continue)
        assert [one.metadata.name for one in (*first.items, *rest.items)] == ["one", "two"]
        core.delete_namespaced_config_map("one", where)
        with self.refused(404):
            core.read_namespaced_config_map("one", where)
        core.delete_collection_namespaced_config_map(where, label_selector="tried=yes")
        assert core.list_namespaced_config_map(where, label_selector="tried=yes").items == []

    def custom(self) -> None:
        from kubernetes.client import CustomObjectsApi

        works, what = CustomObjectsApi(self.hub), (*WORKS.split("/"), "cluster1", "manifestworks")
        works.create_namespaced_custom_object(*what, work("kubernetes"))

        def applied() -> bool:
            status = works.get_namespaced_custom_object(*what, "kubernetes").get("status", {})
            return ("Available", "True") in {(one["type"], one["status"]) for one in status.get("conditions", ())}

        eventually(applied, "the work is available")
        assert self.core.read_namespaced_config_map("kubernetes", "default").data == {"by": "work"}
        works.delete_namespaced_custom_object(*what, "kubernetes")

    def apply(self) -> None:
        maps = self.dynamic.resources.get(api_version="v1", kind="ConfigMap")
        about = {"namespace": self.namespace, "field_manager": "one"}
        maps.server_side_apply(config_map("applied", self.namespace, a="1", b="1"), **about)
        left = maps.server_side_apply(config_map("applied", self.namespace, a="1"), **about)
        assert left.data.to_dict() == {"a": "1"}, "what is no longer applied goes"
        other = config_map("applied", self.namespace, a="2")
        with self.refused(409):
            maps.server_side_apply(other, namespace=self.namespace, field_manager="two")
        won = maps.server_side_apply(other, namespace=self.namespace, field_manager="two", force_conflicts=True)
        assert won.data.to_dict() == {"a": "2"}

    def patch(self) -> None:
        core, where = self.core, self.namespace
        core.create_namespaced_config_map(where, config_map("patched", where, a="1", b="1"))
        merged = core.patch_namespaced_config_map("patched", where, {"data": {"a": None, "c": "1"}})
        assert merged.data == {"b": "1", "c": "1"}
        steps = [{"op": "test", "path": "/data/b", "value": "1"}, {"op": "remove", "path": "/data/b"}]
        assert core.patch_namespaced_config_map("patched", where, steps).data == {"c": "1"}

    def watch(self) -> None:
        from kubernetes.watch import Watch

        core, where, watch = self.core, self.namespace, Watch()
        since = core.list_namespaced_config_map(where).metadata.resource_version

        def write() -> None:
            core.create_namespaced_config_map(where, config_map("watched", where, a="1"))
            core.patch_namespaced_config_map("watched", where, {"data": {"a": "2"}})
            core.delete_namespaced_config_map("watched", where)

        writer = threading.Thread(target=write)
        writer.start()
        seen = []
        asked = {"field_selector": "metadata.name=watched", "resource_version": since, "timeout_seconds": SECONDS}
        for event in watch.stream(core.list_namespaced_config_map, where, **asked):
            seen.append((event["type"], event["object"].data["a"]))
            if event["type"] == "DELETED":
                watch.stop()
        writer.join()
        assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]

    def logs(self) -> None:
        eventually(lambda: self.core.read_namespaced_pod("till", self.namespace).status.phase == "Running", "the pod runs")
        assert self.core.read_namespaced_pod_log("till", self.namespace, tail_lines=10).startswith(LOGGED)
        followed = self.core.read_namespaced_pod_log("till", self.namespace, follow=True, _preload_content=False)
        assert LOGGED in followed.readline().decode()
        followed.close()

    def exec(self) -> None:
        from kubernetes.stream import stream

        with refused_exec():
            stream(self.core.connect_get_namespaced_pod_exec, "till", self.namespace, command=["ls"], stdout=True)


class Kr8s(Trial):
    package = "kr8s"

    def __init__(self, kubeconfig: str) -> None:
        import kr8s
        from kr8s.objects import Namespace, Pod

        super().__init__(kubeconfig)
        self.hub = kr8s.api(kubeconfig=kubeconfig, context="hub")
        self.cluster = kr8s.api(kubeconfig=kubeconfig, context="cluster1")
        Namespace({"metadata": {"name": self.namespace}}, api=self.cluster).create()
        self.pod = Pod(pod(self.namespace), api=self.cluster)
        self.pod.create()

    def map(self, name: str, **data: str) -> Any:
        from kr8s.objects import ConfigMap

        return ConfigMap(config_map(name, self.namespace, **data), api=self.cluster)

    def discovery(self) -> None:
        assert self.hub.version()["gitVersion"].startswith("v1.35")
        assert {"ManagedCluster", "ManifestWork"} <= {one["kind"] for one in self.hub.api_resources()}
        assert CLUSTERS in set(self.hub.api_versions())
        assert [one.name for one in self.hub.get("managedclusters")] == ["cluster1"]

    def crud(self) -> None:
        import kr8s

        made = self.map("one", a="1")
        made.create()
        with refusal(kr8s.ServerError, 409, lambda error: int(error.response.status_code)):
            self.map("one").create()
        self.map("two").create()
        asked = {"namespace": self.namespace, "label_selector": {"tried": "yes"}}
        assert sorted(one.name for one in self.cluster.get("configmaps", **asked)) == ["one", "two"]
        made.label(more="yes")
        made.refresh()
        assert made.labels.more == "yes"
        made.delete()
        eventually(lambda: not made.exists(), "it is deleted")

    def custom(self) -> None:
        from kr8s.objects import ConfigMap, new_class

        made = new_class("ManifestWork", version=WORKS)(work("kr8s"), api=self.hub)
        made.create()

        def available() -> bool:
            """Its own `wait` raises for an object that has no status yet."""
            made.refresh()
            return any(one.type == "Available" and one.status == "True" for one in made.raw.get("status", {}).get("conditions", ()))

        eventually(available, "the work is available")
        assert ConfigMap.get("kr8s", namespace="default", api=self.cluster).data.to_dict() == {"by": "work"}
        made.delete()

    def patch(self) -> None:
        made = self.map("patched", a="1", b="1")
        made.create()
        made.patch({"data": {"a": None, "c": "1"}})
        assert made.data.to_dict() == {"b": "1", "c": "1"}
        made.patch([{"op": "remove", "path": "/data/b"}], type="json")
        assert made.data.to_dict() == {"c": "1"}

    def watch(self) -> None:
        asked = {"namespace": self.namespace, "field_selector": "metadata.name=watched"}
        made, seen = self.map("watched", a="1"), []
        made.create()
        for event, one in self.cluster.watch("configmaps", **asked):
            seen.append((event, one.data.a))
            if event == "ADDED":
                made.patch({"data": {"a": "2"}})
            elif event == "MODIFIED":
                made.delete()
            else:
                break
        assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]

    def logs(self) -> None:
        self.pod.wait("condition=Ready", timeout=SECONDS)
        assert next(iter(self.pod.logs(tail_lines=10))).startswith(LOGGED)
        assert LOGGED in next(iter(self.pod.logs(follow=True, timeout=SECONDS)))

    def exec(self) -> None:
        self.pod.wait("condition=Ready", timeout=SECONDS)
        with refused_exec():
            self.pod.exec(["ls"])


class Lightkube(Trial):
    package = "lightkube"

    def __init__(self, kubeconfig: str) -> None:
        from lightkube import ApiError, Client, KubeConfig
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import Namespace, Pod

        super().__init__(kubeconfig)
        known = KubeConfig.from_file(kubeconfig)
        self.hub = Client(config=known.get(context_name="hub"))
        self.cluster = Client(config=known.get(context_name="cluster1"), namespace=self.namespace, field_manager="one")
        self.error = ApiError
        self.cluster.create(Namespace(metadata=ObjectMeta(name=self.namespace)))
        self.cluster.create(Pod.from_dict(pod(self.namespace)))

    def refused(self, code: int) -> Any:
        return refusal(self.error, code, lambda error: int(error.status.code))

    def map(self, name: str, **data: str) -> Any:
        from lightkube.resources.core_v1 import ConfigMap

        return ConfigMap.from_dict(config_map(name, self.namespace, **data))

    def discovery(self) -> None:
        """It has none of its own; kinds are made from the CustomResourceDefinitions that the server lists."""
        from lightkube.generic_resource import get_generic_resource, load_in_cluster_generic_resources

        load_in_cluster_generic_resources(self.hub)
        clusters = get_generic_resource(CLUSTERS, "ManagedCluster")
        assert [one.metadata.name for one in self.hub.list(clusters)] == ["cluster1"]

    def crud(self) -> None:
        from lightkube.resources.core_v1 import ConfigMap

        made = self.cluster.create(self.map("one", a="1"))
        with self.refused(409):
            self.cluster.create(self.map("one"))
        made.data["b"] = "2"
        assert self.cluster.replace(made).data == {"a": "1", "b": "2"}
        with self.refused(409):
            self.cluster.replace(made)
        self.cluster.create(self.map("two"))
        listed = self.cluster.list(ConfigMap, labels={"tried": "yes"}, chunk_size=1)
        assert [one.metadata.name for one in listed] == ["one", "two"]
        self.cluster.delete(ConfigMap, "one")
        with self.refused(404):
            self.cluster.get(ConfigMap, "one")
        self.cluster.deletecollection(ConfigMap)

    def custom(self) -> None:
        from lightkube.generic_resource import create_namespaced_resource
        from lightkube.resources.core_v1 import ConfigMap

        works = create_namespaced_resource(*WORKS.split("/"), "ManifestWork", "manifestworks")
        self.hub.create(works(work("lightkube")))
        self.hub.wait(works, "lightkube", namespace="cluster1", for_conditions=["Available"])
        assert self.cluster.get(ConfigMap, "lightkube", namespace="default").data == {"by": "work"}
        self.hub.delete(works, "lightkube", namespace="cluster1")

    def apply(self) -> None:
        self.cluster.apply(self.map("applied", a="1", b="1"))
        assert self.cluster.apply(self.map("applied", a="1")).data == {"a": "1"}, "what is no longer applied goes"
        with self.refused(409):
            self.cluster.apply(self.map("applied", a="2"), field_manager="two")
        assert self.cluster.apply(self.map("applied", a="2"), field_manager="two", force=True).data == {"a": "2"}

    def patch(self) -> None:
        from lightkube.resources.core_v1 import ConfigMap
        from lightkube.types import PatchType

        self.cluster.create(self.map("patched", a="1", b="1"))
        assert self.cluster.patch(ConfigMap, "patched", {"data": {"a": None, "c": "1"}}).data == {"b": "1", "c": "1"}
        steps = [{"op": "remove", "path": "/data/b"}]
        assert self.cluster.patch(ConfigMap, "patched", steps, patch_type=PatchType.JSON).data == {"c": "1"}
        merged = self.cluster.patch(ConfigMap, "patched", {"data": {"d": "1"}}, patch_type=PatchType.MERGE)
        assert merged.data == {"c": "1", "d": "1"}

    def watch(self) -> None:
        from lightkube.resources.core_v1 import ConfigMap

        self.cluster.create(self.map("watched", a="1"))
        seen = []
        for event, one in self.cluster.watch(ConfigMap, fields={"metadata.name": "watched"}):
            seen.append((event, one.data["a"]))
            if event == "ADDED":
                self.cluster.patch(ConfigMap, "watched", {"data": {"a": "2"}})
            elif event == "MODIFIED":
                self.cluster.delete(ConfigMap, "watched")
            else:
                break
        assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]

    def logs(self) -> None:
        from lightkube.resources.core_v1 import Pod

        self.cluster.wait(Pod, "till", for_conditions=["Ready"])
        assert next(iter(self.cluster.log("till", tail_lines=10))).startswith(LOGGED)
        assert LOGGED in next(iter(self.cluster.log("till", follow=True)))

    def exec(self) -> None:
        with refused_exec():
            self.cluster.exec("till", command=["ls"])


class Kopf(Trial):
    """An operator for a kind of its own on the cluster, which it has to find, watch and patch."""

    package = "kopf"

    def operator(self) -> None:
        asyncio.run(self._operate())

    async def _operate(self) -> None:
        import kopf
        from kubernetes.client import ApiextensionsV1Api, CoreV1Api
        from kubernetes.config import new_client_from_config

        client = new_client_from_config(self.kubeconfig, "cluster1")
        ApiextensionsV1Api(client).create_custom_resource_definition(definition())
        CoreV1Api(client).create_namespace({"metadata": {"name": self.namespace}})
        shops = Shops(client, self.namespace)
        calls: dict[str, list[Any]] = {"create": [], "update": [], "delete": [], "timer": [], "event": [], "resume": []}
        registry = handlers(kopf, calls)
        settings = kopf.OperatorSettings()
        settings.posting.enabled = True

        async def seen(name: str, expected: Any) -> None:
            await asyncio.to_thread(eventually, lambda: expected in calls[name], f"{name} of {expected}: {calls}")

        async with Running(kopf, registry, settings, self.namespace, client):
            await asyncio.to_thread(shops.create, 1)
            await seen("create", 1)
            await seen("timer", 1)
            await asyncio.to_thread(eventually, lambda: shops.get().get("status", {}).get("open") == {"tills": 1}, "its result")
            made = await asyncio.to_thread(shops.get)
            assert made["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
            await asyncio.to_thread(shops.change, 2)
            await seen("update", (1, 2))
        # One that begins finds what there is.
        async with Running(kopf, registry, settings, self.namespace, client):
            await seen("resume", 2)
            await asyncio.to_thread(shops.delete)
            await seen("delete", 2)
            await seen("event", "DELETED")
        assert shops.names() == []
        events = CoreV1Api(client).list_namespaced_event(self.namespace).items
        assert "the corner shop opens" in {event.message for event in events}


class Shops:
    """The one object that kopf's operator is for."""

    def __init__(self, client: Any, namespace: str) -> None:
        from kubernetes.client import CustomObjectsApi

        self._api, self._what = CustomObjectsApi(client), (GROUP, "v1", namespace, "shops")

    def create(self, tills: int) -> None:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Shop", "metadata": {"name": "corner"}, "spec": {"tills": tills}}
        self._api.create_namespaced_custom_object(*self._what, body)

    def get(self) -> dict[str, Any]:
        found: dict[str, Any] = self._api.get_namespaced_custom_object(*self._what, "corner")
        return found

    def change(self, tills: int) -> None:
        self._api.patch_namespaced_custom_object(*self._what, "corner", {"spec": {"tills": tills}})

    def delete(self) -> None:
        self._api.delete_namespaced_custom_object(*self._what, "corner")

    def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self._api.list_namespaced_custom_object(*self._what)["items"]]


def handlers(kopf: Any, calls: dict[str, list[Any]]) -> Any:
    registry = kopf.OperatorRegistry()
    shops = {"registry": registry}

    @kopf.on.create(GROUP, "v1", "shops", id="open", **shops)
    async def open_(spec: Any, body: Any, **_: Any) -> dict[str, int]:
        calls["create"].append(spec["tills"])
        kopf.info(body, reason="Opened", message="the corner shop opens")
        return {"tills": spec["tills"]}

    @kopf.on.update(GROUP, "v1", "shops", field="spec.tills", **shops)
    async def rebuild(old: Any, new: Any, **_: Any) -> None:
        calls["update"].append((old, new))

    @kopf.on.resume(GROUP, "v1", "shops", **shops)
    async def reopen(spec: Any, **_: Any) -> None:
        calls["resume"].append(spec["tills"])

    @kopf.on.delete(GROUP, "v1", "shops", **shops)
    async def close(spec: Any, **_: Any) -> None:
        calls["delete"].append(spec["tills"])

    @kopf.timer(GROUP, "v1", "shops", interval=0.2, **shops)
    async def count(spec: Any, **_: Any) -> None:
        calls["timer"].append(spec["tills"])

    @kopf.on.event(GROUP, "v1", "shops", **shops)
    async def look(type: str | None, **_: Any) -> None:
        calls["event"].append(type)

    return registry


class Running:
    """The operator, until the block ends."""

    def __init__(self, kopf: Any, registry: Any, settings: Any, namespace: str, client: Any) -> None:
        self._stop, self._ready = asyncio.Event(), asyncio.Event()
        found = client.configuration
        vault = {"server": found.host, "ca_path": found.ssl_ca_cert}
        vault |= {"certificate_path": found.cert_file, "private_key_path": found.key_file}
        connection = kopf.ConnectionInfo(**{name: value for name, value in vault.items() if value})
        stops = {"stop_flag": self._stop, "ready_flag": self._ready, "standalone": True}

        @kopf.on.login(registry=registry, id="login")
        async def login(**_: Any) -> Any:
            return connection

        self._running = kopf.operator(registry=registry, settings=settings, namespaces=[namespace], **stops)

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._running)
        waiting = asyncio.create_task(self._ready.wait())
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert not self._task.done(), self._task

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        async with asyncio.timeout(SECONDS):
            await self._task


def definition() -> dict[str, Any]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    tills = {"type": "object", "properties": {"tills": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": tills, "status": free}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Shop", "plural": "shops", "singular": "shop", "listKind": "ShopList"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [served]}
    about = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**about, "metadata": {"name": f"shops.{GROUP}"}, "spec": spec}


TRIALS: dict[str, type[Trial]] = {trial.package: trial for trial in (Kubernetes, Kr8s, Lightkube, Kopf)}


def main(client: str, kubeconfig: str) -> None:
    kind = TRIALS[client]
    print(json.dumps({"version": version(client)}), flush=True)
    trial = kind(kubeconfig)
    for what in ("discovery", "crud", "custom", "apply", "patch", "watch", "logs", "exec", "operator"):
        if not hasattr(trial, what):
            continue
        try:
            getattr(trial, what)()
        except Exception:
            print(json.dumps({"what": what, "result": "no", "trace": traceback.format_exc()[-3000:]}), flush=True)
        else:
            print(json.dumps({"what": what, "result": "refused" if what == "exec" else "yes"}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
