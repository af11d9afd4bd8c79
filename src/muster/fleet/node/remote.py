"""A node for a cluster that is reached by a client: a real kube-apiserver without kubelets, as in test environments.

The same node as on embedded clusters, with the cluster's state from informers, service account tokens from the TokenRequest API,
and programs that use the server over TLS as pods do. It also relays Services on the loopback interface (`services`). If the cluster
has no kube-controller-manager, `workloads` runs our controllers; EndpointSlices are not written, because a real server refuses
loopback addresses there.

`run` owns every task; when it is cancelled, programs are stopped within `grace` seconds, and their final states are written before
it returns. Pods stay: the next run continues them.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from muster.fleet.attached import Attached, Controller
from muster.fleet.followed import Followed
from muster.fleet.node.addresses import LoopbackAddresses
from muster.fleet.node.boundary import LocalEndpoints
from muster.fleet.node.clusternode import ClusterNode, Work
from muster.fleet.node.kubelet_api import KubeletApi
from muster.fleet.node.nodepods import NodePods
from muster.fleet.node.pod import PodServices
from muster.fleet.node.programs import IMAGES, NO_PLUGINS, Programs
from muster.fleet.node.runtime import GRACE, KUBELET
from muster.fleet.node.services import ServiceRelay
from muster.fleet.node.settings import NO_SETTINGS, NodeSettings
from muster.fleet.node.states import SCHEME
from muster.fleet.workloads import pod_controllers, podstate
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.confinement import CredentialProgram
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, key_of
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import NODES
from muster.runtime.controller import EventRecorder

log = get_logger("muster.fleet.node")
FINAL_SYNC_TIMEOUT = 5.0


class HasKubelets(Exception):
    """The cluster has kubelets: a node of ours would take their pods."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(f"the cluster has nodes that run pods already ({', '.join(nodes)}); this one is for clusters without")
        self.nodes = tuple(nodes)


def kubelets(nodes: Iterable[Object]) -> list[str]:
    """The nodes that are ready and not of our kind."""
    ready = [node for node in nodes if podstate.is_ready(node)]
    runtimes = {node["metadata"]["name"]: node["status"].get("nodeInfo") or {} for node in ready}
    return sorted(name for name, runtime in runtimes.items() if not runtime.get("containerRuntimeVersion", "").startswith(SCHEME))


class RemoteNode:
    """`client` needs the permissions of a kubelet and a scheduler in all namespaces; `server` is the API server's URL for pods.

    With `client_ca`, clients with a certificate of that CA may read logs as from a kubelet (`kubelet_api`).
    """

    def __init__(
        self,
        client: KubeClient,
        server: str,
        programs: Programs,
        directory: Path,
        *,
        name: str,
        workloads: bool = False,
        client_ca: Path | None = None,
        images: Sequence[str] = IMAGES,
        plugins: Mapping[str, CredentialProgram] = NO_PLUGINS,
        settings: NodeSettings = NO_SETTINGS,
        grace: float = GRACE,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self.name = name
        local_endpoints = LocalEndpoints()
        self._relay = ServiceRelay(name, local_endpoints)
        self._nodes: dict[str, ClusterNode] = {}
        self._workloads: list[Controller] = pod_controllers() if workloads else []
        controllers: list[Controller] = [NodePods(self._nodes), self._relay, *self._workloads]
        watched = dict.fromkeys(resource for each in controllers for resource in each.resources)
        self._followed = Followed(client, watched, clock=clock, random=random)
        noting = self._followed.noting(client)
        self._attached = Attached(
            name,
            self._followed,
            clock.now,
            noting,
            noting,
            EventRecorder(client, "kube-controller-manager", name, clock=clock, random=random),
            EventRecorder(client, KUBELET, name, clock=clock, random=random),
        )
        self._queued = [self._followed.queued(each, self._attached, clock=clock, random=random) for each in controllers]
        self._pod_services = PodServices(
            self._attached, programs, tuple(images), server, None, clock, random, local_endpoints, dict(plugins), settings
        )
        self._client = client
        self._client_ca = client_ca
        self._clock = clock
        self._directory = directory
        self._addresses = LoopbackAddresses(random)
        self._grace = grace
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, ready: Callable[[ClusterNode], None] = lambda node: None) -> None:
        """Run until cancelled; `ready` is called when the caches are synced and the node starts.

        Raises an ExceptionGroup with `HasKubelets` on a cluster with kubelets.
        """
        async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
            self._tasks = tasks
            # Created before the informers start, because their first events are its pods.
            node = ClusterNode(self.name, self._pod_services, self._directory / "pods", self._addresses, self._spawn)
            self._nodes[self.name] = node
            following = self._spawn(self._followed.run(), "informers")
            stack.callback(following.cancel)
            await self._followed.synced()
            if machines := kubelets(self._followed.scan(NODES)):
                raise HasKubelets(machines)
            node.forget_strangers()
            if self._client_ca is not None:
                kubelet_api = KubeletApi(self._client, node, self._client_ca, self._clock)
                node.heartbeat.kubelet_api = await stack.enter_async_context(kubelet_api.open())
            for work, what in (
                (self._attached.events.run(), "events of controllers"),
                (self._attached.node_events.run(), "events of the node"),
                (node.heartbeat.run(), "heartbeat"),
            ):
                stack.callback(self._spawn(work, what).cancel)
            controlling = [self._spawn(each.run(), f"controller of {each.name}") for each in self._queued]
            stack.push_async_callback(self._end, node, controlling)
            ready(node)
            await asyncio.Event().wait()

    async def _end(self, node: ClusterNode, controlling: list[asyncio.Task[None]]) -> None:
        await node.stop(self._grace)
        await self._relay.close()
        for each in self._queued:
            each.stop()
        await asyncio.wait(controlling)
        # The watch may not have delivered the end of the programs to the controllers: Deployments must not report pods that have
        # ended.
        try:
            async with asyncio.timeout(FINAL_SYNC_TIMEOUT):
                await self._reconcile_workloads()
        except (KubeError, TimeoutError) as problem:
            log.warning("the last state of workloads was not written", error=str(problem))

    async def _reconcile_workloads(self) -> None:
        for controller in self._workloads:
            for found in self._followed.scan(controller.resources[0]):
                await controller.reconcile(self._attached, str(key_of(found)))

    def _spawn(self, work: Work, name: str) -> asyncio.Task[None]:
        if self._tasks is None:
            work.close()
            raise RuntimeError("the node is not running")
        return self._tasks.create_task(work, name=name)
