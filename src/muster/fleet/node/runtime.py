"""The node runtime: a node for each attached cluster of an API server in this process, and the workload controllers.

Everything is driven by the store's event stream, so clusters at rest cost only a heartbeat every ten seconds. `run` owns every
task; when it is cancelled, programs are stopped within `grace` seconds, and their final states are written before it returns, so
the server must still be running then. Pods stay: the next run continues them. A cluster has one node runtime; servers that share a
database must not both run one.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from muster.apiserver.controllers.manager import ControllerManager
from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.fleet.attached import Attached, Controller
from muster.fleet.embedded import StoreDriven, StoreView
from muster.fleet.node.accounts import AccountClient
from muster.fleet.node.addresses import LoopbackAddresses
from muster.fleet.node.boundary import LocalEndpoints
from muster.fleet.node.clusternode import ClusterNode, Work
from muster.fleet.node.nodepods import NodePods
from muster.fleet.node.pod import PodServices
from muster.fleet.node.programs import IMAGES, NO_PLUGINS, Programs
from muster.fleet.node.settings import NO_SETTINGS, NodeSettings
from muster.fleet.workloads import workload_controllers
from muster.fleet.workloads.persistent_volumes import PersistentVolumes, create_default_class
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.confinement import CredentialProgram
from muster.machinery.logs import get_logger
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.controller import EventRecorder

log = get_logger("muster.fleet.node")
GRACE = 10.0
CLASS_RETRY = (0.2, 30.0)
KUBELET = "kubelet"


class NodeRuntime:
    """`programs` are those of Muster's image; `directory` is for volumes and logs of pods, readable by its owner only; `plugins`
    are the only exec plug-ins for kubeconfigs in pods; `settings` are for all pods; with `simulate`, containers of other images
    are simulated as running.
    """

    def __init__(
        self,
        server: ApiServer,
        programs: Programs,
        directory: Path,
        *,
        images: Sequence[str] = IMAGES,
        plugins: Mapping[str, CredentialProgram] = NO_PLUGINS,
        settings: NodeSettings = NO_SETTINGS,
        simulate: bool = False,
        keep_addresses: bool = True,
        grace: float = GRACE,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._server = server
        self._programs = programs
        self._directory = directory
        self._images = tuple(images)
        self._grace = grace
        self._clock = clock
        self._random = random
        self._addresses = LoopbackAddresses(random, keep=keep_addresses)
        self._local_endpoints = LocalEndpoints()
        self._plugins = dict(plugins)
        self._settings = settings
        self._simulate = simulate
        self._attachments: dict[str, Attached] = {}
        self.nodes: dict[str, ClusterNode] = {}
        self._helpers: dict[str, list[asyncio.Task[None]]] = {}
        controllers: list[Controller] = [*workload_controllers(), NodePods(self.nodes, claims=simulate)]
        if simulate:
            controllers.append(PersistentVolumes())
        self._manager = ControllerManager(server, [StoreDriven(each, self._attachments) for each in controllers])
        self._tasks: asyncio.TaskGroup | None = None
        self._wanted: dict[str, None] = {}

    def attach(self, cluster: str) -> None:
        """Give a cluster of the server a node, now or when the runtime starts."""
        self._wanted[cluster] = None
        if self._tasks is not None and cluster not in self.nodes:
            self._begin(cluster)

    async def detach(self, cluster: str) -> None:
        """Remove its node: programs end, objects stay."""
        self._wanted.pop(cluster, None)
        node = self.nodes.pop(cluster, None)
        if node is None:
            return
        await node.stop(self._grace)
        self._server.clusters[cluster].node = None
        del self._attachments[cluster]
        for task in self._helpers.pop(cluster):
            task.cancel()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._manager.start()
            try:
                for cluster in self._wanted:
                    self._begin(cluster)
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                # Controllers see the end of the programs, so that Deployments do not report pods that have ended.
                await asyncio.gather(*(self.detach(cluster) for cluster in list(self.nodes)))
                await self._manager.stop()

    def _begin(self, name: str) -> None:
        cluster = self._server.clusters[name]
        node_name = f"{name}-node"
        controllers = InProcessClient(self._server.client(cluster), name)
        kubelet = InProcessClient(self._server.client(cluster, agent=KUBELET), name)
        attached = Attached(
            name,
            StoreView(cluster),
            cluster.clock,
            controllers,
            kubelet,
            EventRecorder(controllers, "kube-controller-manager", node_name, clock=self._clock, random=self._random),
            EventRecorder(kubelet, KUBELET, node_name, clock=self._clock, random=self._random),
        )
        connect = partial(AccountClient, self._server, cluster, node=node_name)
        pod_services = PodServices(
            attached,
            self._programs,
            self._images,
            self._server.cluster_url(name),
            connect,
            self._clock,
            self._random,
            self._local_endpoints,
            self._plugins,
            self._settings,
            self._simulate,
        )
        node = ClusterNode(node_name, pod_services, self._directory / name / "pods", self._addresses, self._spawn)
        node.forget_strangers()
        self._attachments[name] = attached
        self.nodes[name] = node
        cluster.node = node
        self._helpers[name] = [
            self._spawn(attached.events.run(), f"events of {name}"),
            self._spawn(attached.node_events.run(), f"events of {node_name}"),
            self._spawn(node.heartbeat.run(), f"heartbeat of {node_name}"),
        ]
        if self._simulate:
            self._helpers[name].append(self._spawn(self._provide_class(controllers), f"storage class of {name}"))
        self._manager.enqueue_cluster(cluster)

    async def _provide_class(self, client: KubeClient) -> None:
        backoff = Backoff(*CLASS_RETRY, random=self._random)
        while True:
            try:
                return await create_default_class(client)
            except KubeError as error:
                log.debug("storage class not created", error=str(error))
            await sleep(self._clock, backoff.next())

    def _spawn(self, work: Work, name: str) -> asyncio.Task[None]:
        if self._tasks is None:
            work.close()
            raise RuntimeError("the node runtime is not running")
        return self._tasks.create_task(work, name=name)
