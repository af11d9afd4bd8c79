"""A hub and its managed clusters on this machine, in this process: embedded control planes, and nodes that run pods as tasks.

`fleet.json` is the desired state. Each cluster in it has a task (keeper): it serves the cluster, starts a node, and joins it to the
hub by the steps of an administrator; for a cluster that is to leave it takes the opposite steps and removes it. After a change of
the file, `changed` starts keepers or turns them around. A keeper that fails reports the reason and retries with backoff. Every step
is idempotent, so a fleet that was killed at any point continues.

The hub is one of the clusters, initialized as any cluster would be. If it is stored in a database, it is an API server of its own
beside theirs (`database_hub.py`), and needs no initialization: keepers only wait for it. It may also be a managed cluster of itself
(`ClusterRecord.is_hub`): then it joins under another name, by the same steps.

The progress is written to `status.json`, for commands that cannot query the hub yet.
"""

from __future__ import annotations

import asyncio
import os
import random as chance
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import msgspec

from muster.administration.errors import AdministrationError
from muster.administration.progress import Progress
from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer, ServerConfig
from muster.aws.errors import AwsError
from muster.embedded.in_process import InProcessClient
from muster.fleet.local import membership
from muster.fleet.local.backup import fulfil_requests
from muster.fleet.local.directory import HUB, FleetDirectory, FleetError
from muster.fleet.local.ingress import ingress, ready_servers
from muster.fleet.local.membership import Membership, Site
from muster.fleet.local.status import FleetStatus, MemberStatus, State, write_status
from muster.fleet.node import NodeRuntime, Programs
from muster.fleet.node.programs import NO_PLUGINS
from muster.fleet.node.settings import NO_SETTINGS
from muster.http.upstream import host_port
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.confinement import CredentialProgram
from muster.machinery.logs import get_logger
from muster.operator.applier import ApplyFailed
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.install import InstallError
from muster.store import StoreError
from muster.transport.persistence import KUBE, SQL

if TYPE_CHECKING:
    # Many modules, loaded only for fleets with a simulated AWS, or with their hub in a database.
    from muster.fleet.local.cloud import FleetCloud
    from muster.fleet.local.database_hub import DatabaseHub

log = get_logger("muster.fleet.local")

HOST: Final = "127.0.0.1"
GRACE: Final = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
FAILURES: Final = (AdministrationError, ApplyFailed, AwsError, InstallError, KubeError, StoreError, TimeoutError)
"""Errors of a step after which it is retried."""


class LocalFleet:
    """`report` is called with every change of the status."""

    def __init__(
        self,
        directory: FleetDirectory,
        programs: Programs,
        report: Callable[[FleetStatus], None],
        *,
        plugins: Mapping[str, CredentialProgram] = NO_PLUGINS,
        steps: Membership = membership,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        fleet = directory.existing()
        self._directory = directory
        self._report = report
        self._steps = steps
        self._clock = clock
        self._random = random
        self._server = ApiServer(
            ServerConfig(
                data_dir=directory.path,
                host=fleet.host,
                port=fleet.clusters_port or fleet.port,
                advertised_host=fleet.advertise,
                clusters=(*((HUB,) if fleet.persistence == KUBE else ()), *fleet.members),
                store="memory" if fleet.ephemeral else "sqlite",
            )
        )
        if fleet.ephemeral:
            shutil.rmtree(directory.nodes, ignore_errors=True)
        self._cloud: FleetCloud | None = None
        if fleet.aws_port:
            from muster.fleet.local.cloud import FleetCloud

            self._cloud = FleetCloud(directory, self._server, HOST, fleet.aws_port, fleet.aws_mode, clock)
        self._hub_server = self._server
        """The API server of the hub."""
        self._runtime = NodeRuntime(
            self._server,
            programs,
            directory.nodes,
            plugins=plugins,
            settings=self._cloud.settings if self._cloud is not None else NO_SETTINGS,
            simulate=fleet.simulate_images,
            keep_addresses=not fleet.restored,
            grace=GRACE,
            clock=clock,
            random=random,
        )
        self._changed = asyncio.Event()
        self._hub_ready = asyncio.Event()
        self._writing = asyncio.Lock()
        self._since = clock.now()
        self._version = version("muster")
        self._keepers: dict[str, tuple[bool, asyncio.Task[None]]] = {}
        self._members: dict[str, MemberStatus] = {}
        self._hub = MemberStatus("Waiting")

    def changed(self) -> None:
        """Called after `fleet.json` has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled. Raises OSError if the port is in use, StoreError if the state cannot be read."""
        async with AsyncExitStack() as stack:
            if self._cloud is not None:
                await self._cloud.start()
                stack.push_async_callback(self._cloud.stop)
            await self._server.start()
            stack.push_async_callback(self._server.stop, 1.0)
            for cluster in self._server.clusters:
                self._runtime.attach(cluster)
                if self._cloud is not None:
                    await self._cloud.judge_tokens(cluster)
            hub = await self._open_hub(stack)
            await self._write_kubeconfig()
            running = asyncio.create_task(self._runtime.run(), name="node runtime")
            stack.push_async_callback(_ended, running)
            async with asyncio.TaskGroup() as tasks:
                if hub is not None:
                    tasks.create_task(hub.run(), name="hub's parts")
                tasks.create_task(self._keep_hub(), name="hub")
                if self._cloud is not None:
                    tasks.create_task(self._cloud.watch_aws_auth(self.client(HUB)).run(), name="aws-auth")
                tasks.create_task(_watch_over(running), name="node runtime's fate")
                while True:
                    self._changed.clear()
                    try:
                        await self._assign(tasks)
                        await fulfil_requests(self._directory, self._server.store)
                    except FleetError as error:
                        log.error("the fleet's record is of no use; it stays as it was", error=str(error))
                    await self._changed.wait()

    async def _open_hub(self, stack: AsyncExitStack) -> DatabaseHub | None:
        """Start what the hub needs before the first request; returns the database hub if there is one."""
        fleet = self._directory.existing()
        if fleet.persistence == SQL:
            from muster.fleet.local.database_hub import database_hub

            opening = database_hub(
                self._directory.hub,
                self._directory.database(fleet),
                fleet.port,
                fleet.grpc_port,
                clock=self._clock,
                random=self._random,
            )
            hub = await stack.enter_async_context(opening)
            self._hub_server = hub.server
            return hub
        if fleet.grpc_port:
            await stack.enter_async_context(ingress(fleet.host, fleet.grpc_port, ready_servers(self.client(HUB))))
        return None

    @property
    def status(self) -> FleetStatus:
        aws = self._cloud.url if self._cloud is not None else ""
        return FleetStatus(os.getpid(), self._hub_server.url, self._hub, dict(self._members), aws)

    def _publish_status(self) -> None:
        status = self.status
        write_status(self._directory, status)
        self._report(status)

    async def _assign(self, tasks: asyncio.TaskGroup) -> None:
        """Start a keeper for every cluster in `fleet.json`, with its desired state."""
        for record in self._directory.existing().clusters:
            leaving, keeper = self._keepers.get(record.name, (None, None))
            if leaving == record.leaving:
                continue
            if keeper is not None:
                await _ended(keeper)
            work = self._keep(record.name, self._take_leave if record.leaving else self._take_in)
            self._members[record.name] = MemberStatus("Waiting")
            self._keepers[record.name] = (record.leaving, tasks.create_task(work, name=f"keeper of {record.name}"))
        self._publish_status()

    async def _keep_hub(self) -> None:
        await self._persist(HUB, self._initialize)
        self._hub_ready.set()

    async def _keep(self, name: str, steps: Callable[[str], Awaitable[None]]) -> None:
        await self._hub_ready.wait()
        await self._persist(name, lambda: steps(name))

    async def _persist(self, name: str, steps: Callable[[], Awaitable[None]]) -> None:
        """Repeat the steps until they succeed."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, random=self._random)
        while True:
            try:
                await steps()
                return
            except FAILURES as error:
                log.warning("a step failed", cluster=name, error=str(error))
                self.note(name, "Failed", str(error))
            except Exception as error:  # a keeper's error must not end the others
                log.error("a step broke", cluster=name, exc_info=error)
                self.note(name, "Failed", f"{type(error).__name__}: {error}")
            await sleep(self._clock, backoff.next())

    def note(self, name: str, state: State, reason: str = "") -> None:
        status = MemberStatus(state, reason)
        if status == (self._hub if name == HUB else self._members.get(name)):
            return
        if name == HUB:
            self._hub = status
        else:
            self._members[name] = status
        self._publish_status()

    async def _write_kubeconfig(self) -> None:
        async with self._writing:
            others = [self._server] if self._server is not self._hub_server else []
            await write_kubeconfig(self._hub_server, self._directory.kubeconfig, *others)

    def _server_of(self, name: str) -> ApiServer:
        return self._hub_server if name == HUB else self._server

    def client(self, name: str) -> KubeClient:
        server = self._server_of(name)
        return InProcessClient(server.client(server.clusters[name], agent="clusteradm"), name)

    async def _site(self, name: str) -> Site:
        fleet = self._directory.existing()
        cluster = HUB if name == fleet.hub_cluster else name
        server, port = self._server_of(cluster), fleet.grpc_port
        grpc = host_port(fleet.address, port) if port and name == HUB else ""
        site = Site(name, self.client(cluster), server.cluster_url(cluster), server.ca_pem, grpc, fleet.gateway and name == HUB)
        if self._cloud is None:
            return site
        from muster.fleet.local.cloud import arn_of

        arn = arn_of(cluster)
        return replace(site, arn=str(arn), aws=await self._cloud.process_env(arn.account))

    async def _initialize(self) -> None:
        fleet, hub, progress = self._directory.existing(), await self._site(HUB), _Steps(self, HUB, "Starting")
        if fleet.persistence == SQL:
            from muster.fleet.local.database_hub import LEASES

            await self._steps.await_leaders(hub, LEASES, self._since, progress)
        elif fleet.installed != self._version or not await self._steps.is_initialized(hub):
            if self._cloud is not None:
                await self._cloud.prepare(HUB, hub.client)
            await self._steps.initialize(hub, fleet.auth, progress)
            self._directory.edit(lambda fleet: msgspec.structs.replace(fleet, installed=self._version))
        else:
            await self._steps.await_initialized(hub, self._since, progress)
        if self._directory.existing().restored:
            self._directory.edit(lambda fleet: msgspec.structs.replace(fleet, restored=False))
        self.note(HUB, "Available")

    async def _take_in(self, name: str) -> None:
        progress = _Steps(self, name, "Joining")
        fleet = self._directory.existing()
        if name != fleet.hub_cluster:
            await self._serve(name)
        hub, cluster = await self._site(HUB), await self._site(name)
        if fleet.version_of(name) != self._version or not await self._steps.has_joined(hub, cluster):
            if self._cloud is not None:
                await self._cloud.prepare(name, cluster.client)
            await self._steps.join(hub, cluster, fleet.auth, progress)
            if fleet.gateway:
                await self._accept_with_gateway(hub, name, progress)
            else:
                await self._steps.accept(hub, name, progress)
            self._directory.edit(lambda fleet: fleet.joined(name, self._version))
        await self._steps.await_available(hub, name, self._since, progress)
        if fleet.gateway:
            await self._steps.await_gateway(hub, name, progress)
        self.note(name, "Available")

    async def _serve(self, name: str) -> None:
        """Serve the cluster's control plane and start its node."""
        if name not in self._server.clusters:
            await self._server.add_cluster(name)
            await self._write_kubeconfig()
            if self._cloud is not None:
                await self._cloud.judge_tokens(name)
        self._runtime.attach(name)

    async def _accept_with_gateway(self, hub: Site, name: str, progress: Progress) -> None:
        """The hub prepares the gateway's objects of a cluster as soon as it has accepted it, while the cluster's agent starts."""
        aside = _Aside(progress)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._steps.enable_gateway(hub, name, aside), name=f"gateway addon of {name}")
                await self._steps.accept(hub, name, progress)
                aside.shown = True
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _take_leave(self, name: str) -> None:
        progress = _Steps(self, name, "Leaving")
        hub = await self._site(HUB)
        if name == self._directory.existing().hub_cluster:
            await self._steps.leave(hub, await self._site(name), progress)
        elif name in self._server.clusters:
            await self._steps.leave(hub, await self._site(name), progress)
            await self._runtime.detach(name)
            await self._server.remove_cluster(name)
            await asyncio.to_thread(shutil.rmtree, self._directory.nodes / name, ignore_errors=True)
            await self._write_kubeconfig()
        # Its agent may have created it again before it ended.
        await self._steps.forget(hub, name)
        if self._cloud is not None:
            await self._cloud.remove(name)
        self._directory.edit(lambda fleet: fleet.without_cluster(name))
        del self._members[name], self._keepers[name]
        self._publish_status()


class _Steps:
    """Progress of the steps of one cluster: waits become its status, the rest is logged."""

    def __init__(self, fleet: LocalFleet, name: str, state: State) -> None:
        self._fleet = fleet
        self._name = name
        self._state = state
        fleet.note(name, state)

    def info(self, text: str) -> None:
        log.info(text, cluster=self._name)

    def note(self, text: str) -> None:
        log.info(text, cluster=self._name)

    def warn(self, text: str) -> None:
        log.warning(text, cluster=self._name)

    def waiting(self, what: str, why: str) -> None:
        self._fleet.note(self._name, self._state, why.removeprefix(f"{self._name}: "))


class _Aside:
    """Progress of a concurrent step: its waits are shown when the main step has ended, because a cluster has one status."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.shown = False
        self.info, self.note, self.warn = progress.info, progress.note, progress.warn

    def waiting(self, what: str, why: str) -> None:
        if self.shown:
            self._progress.waiting(what, why)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def _watch_over(task: asyncio.Task[None]) -> None:
    """Raises when the task fails."""
    await asyncio.shield(task)
