"""One pod on the node, from its binding to its removal: its volumes, its containers, its status.

A worker is one task: mount (waiting for missing objects) → init containers one after the other → the others concurrently → cleanup.
A second task keeps volumes up to date. After every change, a third writes the differences to the status, with retries; a worker
never ends because the API server is unreachable. The worker of a deleted pod stops its containers within the grace period, writes
their final states, and only then removes the object.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from muster.fleet.attached import Attached
from muster.fleet.node.boundary import LocalEndpoints, PodNetwork
from muster.fleet.node.container import Container, ContainerPolicy
from muster.fleet.node.environment import (
    Address,
    MissingReference,
    PodEnvironment,
    mounted,
    resolve_environ,
)
from muster.fleet.node.podrecord import record_pod
from muster.fleet.node.podspec import ContainerSpec, Pod, pod_of, referenced
from muster.fleet.node.programs import Programs, is_ours
from muster.fleet.node.settings import NO_SETTINGS, NodeSettings
from muster.fleet.node.states import INITIALIZING, ContainerStatus, PodFacts, Waiting, pod_status, remembered, restarts_after
from muster.fleet.node.volumes import Volumes
from muster.machinery.backoff import Backoff
from muster.machinery.clock import Clock, Random, sleep, within
from muster.machinery.confinement import CredentialProgram
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.machinery.privatefiles import make_directories
from muster.runtime.client import SERVICE_ACCOUNT, Conflict, KubeClient, KubeError, NotFound, patch_status
from muster.runtime.client.builtin import CONFIG_MAPS, PODS, SECRETS

log = get_logger("muster.fleet.node")

_REMOVALS, _REMOVAL_PAUSE = 20, 0.1
_REFERENCED = {"secrets": SECRETS, "configmaps": CONFIG_MAPS}
MOUNT_RETRY = (0.5, 60.0)
DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


@dataclass(frozen=True)
class PodServices:
    """What the node provides to every pod."""

    attached: Attached
    programs: Programs
    images: tuple[str, ...]
    server: str
    connect: Callable[[Pod], KubeClient] | None
    """Makes a client with the identity of a pod's service account, if that needs no socket."""
    clock: Clock
    random: Random
    local_endpoints: LocalEndpoints = field(default_factory=LocalEndpoints)
    """The addresses on which programs of the runtime's pods listen."""
    plugins: Mapping[str, CredentialProgram] = field(default_factory=dict)
    settings: NodeSettings = NO_SETTINGS
    simulate: bool = False
    """Whether containers of other images are simulated as running."""


class PodWorker:
    def __init__(self, pod: Pod, address: Address, directory: Path, pod_services: PodServices) -> None:
        self.pod = pod
        self.address = address
        self.directory = directory
        self.finished = False
        self.gone = False
        """Whether the object was deleted by force."""
        self._pod_services = pod_services
        self._clock = pod_services.clock
        now = self._clock.now()
        self._started = parse_time(pod.status["startTime"]) if pod.status.get("startTime") else now
        self._references = referenced(pod)
        self._volumes = Volumes(directory / "volumes", pod_services.attached.kubelet, self._lookup, self._clock)
        self._mounted = False
        self._news = asyncio.Event()
        self._remount = asyncio.Event()
        self._dirty = asyncio.Event()
        self._written = asyncio.Event()
        """Set when only the final status is left to write."""
        self._grace: float | None = None
        self._deadline_changed = asyncio.Event()
        self._expired = False
        """Whether its containers were stopped by activeDeadlineSeconds."""
        self._initial = self._containers(pod.spec.init_containers, "initContainerStatuses")
        self._main = self._containers(pod.spec.containers, "containerStatuses")

    def _containers(self, specs: tuple[ContainerSpec, ...], field: str) -> dict[str, Container]:
        known = {each["name"]: each for each in self.pod.status.get(field) or ()}
        meta, spec = self.pod.metadata, self.pod.spec
        shown = f"{meta.name}_{meta.namespace}({meta.uid})"
        grace = float(spec.termination_grace_period_seconds)
        made = {}
        for each in specs:
            policy = each.restart_policy or spec.restart_policy
            if field == "initContainerStatuses" and not each.restart_policy:
                policy = "OnFailure" if spec.restart_policy == "Always" else spec.restart_policy
            status = remembered(known.get(each.name), self._clock.now())
            logs = self.directory / "logs" / each.name
            made[each.name] = Container(
                each, ContainerPolicy(policy, grace, shown), self._pod_services.programs, self, logs, self._clock, status
            )
        return made

    # Called by its containers.

    def runnable(self, image: str) -> bool:
        return is_ours(image, self._pod_services.images)

    def simulates(self, image: str) -> bool:
        return self._pod_services.simulate and not self.runnable(image)

    def _is_simulated(self) -> bool:
        """Whether all its containers are simulated."""
        return all(self.simulates(each.image) for each in (*self.pod.spec.init_containers, *self.pod.spec.containers))

    def environment(self, spec: ContainerSpec, write: Callable[[str, str], None]) -> PodEnvironment:
        pod_services, settings = self._pod_services, self._pod_services.settings
        environ = resolve_environ(self.pod, spec, self.address, self._lookup, settings.variables)
        mounts = {} if self.simulates(spec.image) else mounted(self._volumes.directories, spec.volume_mounts, environ)
        # As with a token: a container without the mounted one does not get the identity.
        connect = pod_services.connect if str(SERVICE_ACCOUNT) in mounts else None
        scratch = self.directory / "containers" / spec.name
        shutil.rmtree(scratch, ignore_errors=True)
        make_directories(scratch)
        settings.write_files(scratch)
        namespace = self.pod.metadata.namespace
        return PodEnvironment(
            namespace=namespace,
            pod=self.pod.metadata.name,
            container=spec.name,
            uid=self.pod.uid,
            ip=self.address.ip,
            environ=environ,
            server=pod_services.server,
            direct=None if connect is None else partial(connect, self.pod),
            write=write,
            mounts=mounts,
            scratch=scratch,
            network=PodNetwork(
                namespace, pod_services.attached.view, pod_services.server, pod_services.local_endpoints, settings.reachable
            ),
            plugins=pod_services.plugins,
        )

    def changed(self) -> None:
        self._dirty.set()
        self._news.set()

    def record_event(self, warning: bool, reason: str, note: str) -> None:
        meta = self.pod.metadata
        regarding = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        }
        self._pod_services.attached.node_events.event(regarding, "Warning" if warning else "Normal", reason, note)

    def _lookup(self, plural: str, name: str) -> Object | None:
        return self._pod_services.attached.view.read(_REFERENCED[plural], f"{self.pod.metadata.namespace}/{name}")

    # Called by the node.

    def uses(self, plural: str, name: str) -> bool:
        return (plural, name) in self._references

    def update(self, pod: Pod) -> None:
        """A newer version of the pod."""
        known = self.pod.metadata
        if pod.spec.active_deadline_seconds != self.pod.spec.active_deadline_seconds:
            self._deadline_changed.set()
        moved = pod.metadata.generation != known.generation
        reworded = (pod.metadata.labels, pod.metadata.annotations) != (known.labels, known.annotations)
        self.pod = pod
        if moved:
            self._references = referenced(pod)
            for spec in (*pod.spec.init_containers, *pod.spec.containers):
                container = self.container(spec.name)
                if container is not None:
                    container.changed(spec)
        if moved or reworded:
            self.refresh()
        # Other clients may have written the status, or a readiness gate.
        self._dirty.set()
        if pod.leaving:
            self.stop(pod.grace)

    def refresh(self) -> None:
        """An object that it uses has changed or was created."""
        self._remount.set()
        self._news.set()
        for container in self._all():
            container.changed()

    def stop(self, grace: float) -> None:
        """Stop the containers within so many seconds; `run` ends after that."""
        if self._grace is None or grace < self._grace:
            self._grace = grace
            self._news.set()
            for container in self._all():
                container.stop(grace)

    def _all(self) -> list[Container]:
        return [*self._initial.values(), *self._main.values()]

    def container(self, name: str) -> Container | None:
        return self._initial.get(name) or self._main.get(name)

    # Lifecycle.

    async def run(self) -> None:
        """Run until all containers have ended for good or the pod is to be removed."""
        record_pod(self.directory, self.pod.metadata.namespace, self.pod.metadata.name, self.pod.metadata.labels)
        async with asyncio.TaskGroup() as helpers:
            writing = helpers.create_task(self._write_status(), name=f"status of {self.pod.key}")
            self._dirty.set()
            expiring = helpers.create_task(self._expire(), name=f"deadline of {self.pod.key}")
            while not self._runs_here() and self._grace is None:
                await self._wait()
            if self._grace is None:
                keeping = helpers.create_task(self._keep_volumes(), name=f"volumes of {self.pod.key}")
                while not self._mounted and self._grace is None:
                    await self._wait()
                await self._run_containers()
                keeping.cancel()
            expiring.cancel()
            # A write in flight is awaited: it must not arrive after the last one.
            self._written.set()
            self._dirty.set()
            await writing
        self.finished = True
        await self._report(final=True)

    async def _expire(self) -> None:
        """Stop the containers when activeDeadlineSeconds are over."""
        while True:
            self._deadline_changed.clear()
            allowed = self.pod.spec.active_deadline_seconds
            if allowed is None:
                await self._deadline_changed.wait()
                continue
            left = allowed - (self._clock.now() - self._started).total_seconds()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                await within(self._clock, left, self._deadline_changed.wait())
        if self._grace is None:
            self._expired = True
            self.record_event(False, DEADLINE_EXCEEDED, DEADLINE_MESSAGE)
            self.stop(float(self.pod.spec.termination_grace_period_seconds))

    def _runs_here(self) -> bool:
        """Whether every image is ours; containers with other images report that they are not."""
        runnable = [container.is_runnable() for container in self._all()]
        return all(runnable)

    async def _run_containers(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self._grace is None and await self._initialize(tasks):
                await asyncio.wait([tasks.create_task(container.run()) for container in self._main.values()])
            for container in self._initial.values():
                if container.container_policy.policy == "Always":
                    container.stop(self.pod.grace)

    async def _initialize(self, tasks: asyncio.TaskGroup) -> bool:
        """Run init containers in order; a restartable one (sidecar) continues beside the others once it has started."""
        for container in self._initial.values():
            running = tasks.create_task(container.run())
            if container.container_policy.policy != "Always":
                await asyncio.wait({running})
                if not container.status.succeeded:
                    return False
            while not container.status.started and not running.done():
                await self._wait()
        return self._grace is None

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()

    async def _keep_volumes(self) -> None:
        """Mount the volumes, and update them whenever something has changed or a token is due for renewal."""
        backoff = Backoff(*MOUNT_RETRY, random=self._pod_services.random)
        while True:
            self._remount.clear()
            pause: float | None
            try:
                if self._is_simulated():
                    self._volumes.require(self.pod)
                    pause = None
                else:
                    pause = await self._volumes.materialise(self.pod, self.address)
                backoff.reset()
                if not self._mounted:
                    self._mounted = True
                    self.changed()
            except (MissingReference, OSError, ValueError) as problem:
                self.record_event(True, "FailedMount", f"MountVolume.SetUp failed: {problem}")
                pause = backoff.next()
            try:
                await (self._remount.wait() if pause is None else within(self._clock, pause, self._remount.wait()))
            except TimeoutError:
                continue

    # Status.

    def _facts(self) -> PodFacts:
        initial = [(each, each.status) for each in self._initial.values()]
        complete = all(status.started if each.container_policy.policy == "Always" else status.succeeded for each, status in initial)
        begun = any(not isinstance(each.status.state, Waiting) or each.status.last for each in self._main.values())
        failed = any(
            status.done and not status.succeeded and not restarts_after(each.container_policy.policy, 1) for each, status in initial
        )
        node_ip = self.address.node_ip
        return PodFacts(self.address.ip, node_ip, self._started, self._mounted, complete or begun, failed)

    def status(self, pod: Pod) -> Object:
        facts = self._facts()
        initial = {name: each.status for name, each in self._initial.items()}
        main = {name: each.status for name, each in self._main.items()}
        if not facts.initialized:
            main = {name: _initializing(status) for name, status in main.items()}
        expired = (DEADLINE_EXCEEDED, DEADLINE_MESSAGE) if self._expired and self.finished else None
        return pod_status(pod, facts, initial, main, self._clock.now(), failure=expired)

    async def _write_status(self) -> None:
        backoff = Backoff(0.2, 30.0, random=self._pod_services.random)
        while True:
            await self._dirty.wait()
            if self._written.is_set():
                return
            self._dirty.clear()
            try:
                await self._report()
                backoff.reset()
            except KubeError as problem:
                log.debug("status not written", pod=self.pod.key, error=str(problem))
                self._dirty.set()
                with contextlib.suppress(TimeoutError):
                    await within(self._clock, backoff.next(), self._written.wait())

    async def _report(self, *, final: bool = False) -> None:
        found = self._pod_services.attached.view.read(PODS, self.pod.key)
        if found is None or found["metadata"]["uid"] != self.pod.uid:
            return
        try:
            await patch_status(self._pod_services.attached.kubelet, PODS, found, self.status(pod_of(found)))
        except (NotFound, Conflict):
            return
        except KubeError as problem:
            if not final:
                raise
            log.warning("last status not written", pod=self.pod.key, error=str(problem))

    async def remove(self) -> None:
        """Remove the object after its programs have ended, and its files."""
        meta = self.pod.metadata
        # Deleted already, or replaced by another pod of that name.
        with contextlib.suppress(NotFound, Conflict):
            await self._pod_services.attached.kubelet.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace=0)
        await self._remove_files()

    async def _remove_files(self) -> None:
        """Repeated if a thread was still writing a volume: its new files keep the directory non-empty."""
        for _ in range(_REMOVALS):
            await asyncio.to_thread(shutil.rmtree, self.directory, True)
            if not await asyncio.to_thread(self.directory.exists):
                return
            await sleep(self._clock, _REMOVAL_PAUSE)
        log.warning("files of a pod are left", pod=self.pod.key, directory=str(self.directory))


def _initializing(status: ContainerStatus) -> ContainerStatus:
    """A container that waits for the init containers gets that reason, unless it has a more specific one."""
    return replace(status, state=Waiting(INITIALIZING)) if status.state == Waiting() else status
