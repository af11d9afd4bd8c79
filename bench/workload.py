"""The works of `bench work`: made before the agent starts, and followed on the hub until they are Applied and Available."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from bench.awaiting import until
from bench.workers import CLUSTER, Worker
from muster.machinery.objects import GVR, Object
from muster.runtime.cache.informer import Informer
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, ROLE_BINDINGS
from muster.runtime.client.errors import NotFound
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.work.kinds import MANIFEST_WORKS

PLACES = tuple(f"team{number}" for number in range(10))
LATE = "late"
"""The executor may do nothing there at first."""
EXECUTOR = {"namespace": "default", "name": "deployer"}
ROLES = GVR("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
_RULE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch", "get", "delete"]}
_FILLING = "x" * 200
_MAKERS = 16


def config_map(name: str, namespace: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"name": name, "filling": _FILLING}}


def work(name: str, manifests: list[Object], executor: bool) -> Object:
    spec: Object = {"workload": {"manifests": manifests}}
    if executor:
        spec["executor"] = {"subject": {"type": "ServiceAccount", "serviceAccount": EXECUTOR}}
    metadata = {"name": name, "namespace": CLUSTER}
    return {"apiVersion": MANIFEST_WORKS.api_version, "kind": "ManifestWork", "metadata": metadata, "spec": spec}


def binding(namespace: str) -> Object:
    return {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": "RoleBinding",
        "metadata": {"name": "deployer", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", **EXECUTOR}],
    }


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class _Work(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Work).decode


@dataclass
class Load:
    """The hub and the managed cluster as an administrator sees them."""

    worker: Worker
    client: HttpClient
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    """By work, the status of its conditions."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def make(self, works: int, manifests: int, executor: bool) -> None:
        role = {"apiVersion": ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": "deployer"}, "rules": [_RULE]}
        await self.client.create(ROLES, role)
        for place in (*PLACES, LATE):
            await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
        for place in PLACES:
            await self.client.create(ROLE_BINDINGS, binding(place))
        names = iter(range(works))

        async def maker() -> None:
            for number in names:
                name, place = f"work{number:04d}", PLACES[number % len(PLACES)]
                content = [config_map(f"{name}-{index}", place) for index in range(manifests)]
                await self.client.create(MANIFEST_WORKS, work(name, content, executor))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_MAKERS):
                tasks.create_task(maker())

    def count(self, condition: str) -> int:
        return sum(state.get(condition) == "True" for state in self.states.values())

    async def until(self, done: Callable[[], bool], what: str, timeout: float) -> float:
        """When it was so: monotonic time."""
        return await until(self.worker, self.news, done, what, timeout)

    async def repaired(self, name: str, namespace: str, timeout: float) -> float:
        """Seconds until a ConfigMap says again what its work says."""
        began = time.monotonic()
        while time.monotonic() < began + timeout:
            try:
                if (await self.client.get(CONFIG_MAPS, name, namespace))["data"]["name"] == name:
                    return time.monotonic() - began
            except NotFound:
                pass
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.worker.name}: ConfigMap {name} was not repaired within {timeout:.0f} s")


@asynccontextmanager
async def loaded(worker: Worker) -> AsyncIterator[Load]:
    """The works of a worker's hub, followed; `Load.make` makes them."""
    client = HttpClient(load_kubeconfig(worker.plane.kubeconfig), agent="bench")
    load = Load(worker, client)

    def saw(old: _Work | None, new: _Work | None) -> None:
        if new is not None:
            load.states[new.metadata.name] = {one.type: one.status for one in new.status.conditions or ()}
            load.news.set()

    informer = Informer(client, MANIFEST_WORKS, CLUSTER, decode=_decode, reduce=lambda raw: msgspec.json.encode(_decode(raw)))
    informer.on_change(saw)
    running = asyncio.create_task(informer.run())
    try:
        yield load
    finally:
        running.cancel()
        await asyncio.wait({running})
        await client.close()
