"""A stage for the node runtime: an API server in this process, a node on it, and words to say what a test wants of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.fleet.node import NodeRuntime, Programs, RemoteNode
from muster.fleet.node.clusternode import ClusterNode
from muster.fleet.node.settings import NO_SETTINGS, NodeSettings
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.operator.pod_namespaces import RUN
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import NAMESPACES

PODS = GVR("v1", "pods", "Pod")
DEPLOYMENTS = GVR("apps/v1", "deployments", "Deployment")
REPLICA_SETS = GVR("apps/v1", "replicasets", "ReplicaSet")
SERVICES = GVR("v1", "services", "Service")
SLICES = GVR("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
EVENTS = GVR("v1", "events", "Event")
IMAGE = "registry.example/stolostron/muster:v1"


class Stage:
    """One cluster with a node. `start` and `stop` may alternate: the server lives on, as its store would. A `remote` node knows
    the server only by a client; the way to its logs, which is a kubelet's, is made here."""

    def __init__(
        self,
        server: ApiServer,
        programs: Programs,
        directory: Path,
        clock: Clock = SYSTEM,
        *,
        remote: bool = False,
        settings: NodeSettings = NO_SETTINGS,
        simulate: bool = False,
    ) -> None:
        self.server = server
        self.cluster = server.clusters["default"]
        self.client = InProcessClient(server.client(self.cluster, agent="test"))
        self.programs = dict(programs)
        """May be added to while it runs."""
        self._directory = directory
        self._clock = clock
        self._remote = remote
        self._settings = settings
        self._simulate = simulate
        self.node: ClusterNode
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._remote:
            client, url = InProcessClient(self.server.client(self.cluster, agent="node")), self.server.cluster_url("default")
            place = self._directory / "default"
            remote = RemoteNode(
                client, url, self.programs, place, name="default-node", workloads=True, grace=1.0, clock=self._clock
            )
            self._task = asyncio.create_task(remote.run(self._begun))
        else:
            runtime = NodeRuntime(
                self.server,
                self.programs,
                self._directory,
                settings=self._settings,
                simulate=self._simulate,
                grace=1.0,
                clock=self._clock,
            )
            runtime.attach("default")
            self._task = asyncio.create_task(runtime.run())
        await self.until(lambda: self.cluster.node and self.cluster.read("/nodes", "default-node"), "there is a node")
        assert isinstance(self.cluster.node, ClusterNode)
        self.node = self.cluster.node

    def _begun(self, node: ClusterNode) -> None:
        self.cluster.node = node

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def until(self, probe: Callable[[], Any], what: str, seconds: float = 40.0) -> Any:
        """The first true answer of `probe`; asked on every turn of the loop until then."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = probe()
                    if found:
                        return found
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pods = [(pod["metadata"]["name"], pod.get("status")) for pod in self.cluster.scan("/pods")]
            raise AssertionError(f"never so: {what}; pods: {pods}") from None

    async def pod(self, name: str, *args: str, image: str = IMAGE, container: dict[str, Any] | None = None, **spec: Any) -> Any:
        made = {"name": "main", "image": image, "args": list(args), **(container or {})}
        return await self.client.create(PODS, pod_manifest(name, made, **spec), "default")

    def read(self, name: str, kind: str = "/pods") -> dict[str, Any]:
        return self.cluster.read(kind, f"default/{name}") or {}

    def status(self, name: str) -> dict[str, Any]:
        return self.read(name).get("status") or {}

    def container(self, name: str) -> dict[str, Any]:
        found = self.status(name).get("containerStatuses") or [{}]
        return dict(found[0])

    async def phase(self, name: str, phase: str) -> dict[str, Any]:
        await self.until(lambda: self.status(name).get("phase") == phase, f"{name} is {phase}")
        return self.status(name)

    async def ready(self, name: str) -> dict[str, Any]:
        await self.until(lambda: condition(self.read(name), "Ready") == "True", f"{name} is ready")
        return self.status(name)

    async def gone(self, name: str) -> None:
        await self.until(lambda: not self.read(name), f"{name} is gone")

    async def log(self, name: str, **query: str) -> str:
        return (await self.client.raw("GET", f"{PODS.path('default', name)}/log", query)).decode()

    def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of what was told about a pod."""
        found = [event for event in self.cluster.scan("/events") if event["involvedObject"].get("name") == name]
        return [(event["reason"], event.get("message", "")) for event in found]


async def let_pods_run(client: KubeClient, namespace: str = "default") -> None:
    """As an administrator does, for a namespace that neither `clusteradm` nor an operator has made."""
    await client.patch(NAMESPACES, namespace, {"metadata": {"labels": RUN}})


def condition(obj: dict[str, Any], kind: str) -> str:
    found = (obj.get("status") or {}).get("conditions") or ()
    return str(next((each["status"] for each in found if each["type"] == kind), ""))


def pod_manifest(name: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


@asynccontextmanager
async def open_stage(
    programs: Programs,
    directory: Path,
    clock: Clock = SYSTEM,
    *,
    remote: bool = False,
    static_tokens: Mapping[str, UserInfo] | None = None,
    settings: NodeSettings = NO_SETTINGS,
    simulate: bool = False,
) -> AsyncIterator[Stage]:
    server = ApiServer(
        ServerConfig(
            store="memory", namespace_grace_period=0, clusters=("default",), clock=clock.now, static_tokens=static_tokens or {}
        )
    )
    await server.start()
    stage = Stage(server, programs, directory, clock, remote=remote, settings=settings, simulate=simulate)
    await let_pods_run(stage.client)
    await stage.start()
    try:
        yield stage
    finally:
        await stage.stop()
        await server.stop(grace=0.1)
