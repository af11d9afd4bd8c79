"""The node of one cluster: binds pending pods, runs a worker for each pod bound to it, and serves their logs to the API server.

`sync` is called with every change of a pod and uses only the present state: it binds, starts, updates or stops, and never waits for
a program. Workers are keyed by uid, so a pod that is replaced under the same name ends beside its successor. After a restart of the
process pods continue from their status; files of deleted pods are removed.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from muster.apiserver.nodes import LogOptions, NoLogs
from muster.fleet.attached import Attached
from muster.fleet.node.addresses import NODE_IP, LoopbackAddresses
from muster.fleet.node.containerlog import has_log, read_log
from muster.fleet.node.environment import Address
from muster.fleet.node.heartbeat import MOST_PODS, Heartbeat
from muster.fleet.node.pod import PodServices, PodWorker
from muster.fleet.node.podspec import Pod, pod_of
from muster.fleet.node.scheduler_filters import excess, is_waiting, obstacle
from muster.fleet.node.simulated import only_foreign
from muster.fleet.node.states import container_status, merged
from muster.fleet.workloads.persistent_volumes import unbound_claim
from muster.fleet.workloads.podstate import FINISHED
from muster.machinery.backoff import Backoff
from muster.machinery.clock import sleep
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.machinery.privatefiles import make_directories
from muster.operator.pod_namespaces import may_run, not_running
from muster.runtime.client import Conflict, KubeError, NotFound, patch_status
from muster.runtime.client.builtin import NAMESPACES, NODES, PODS

log = get_logger("muster.fleet.node")

Work = Coroutine[Any, Any, None]
Spawn = Callable[[Work, str], asyncio.Task[None]]
"""Starts work as a task of the node runtime, under a name."""


UNSCHEDULABLE = ("PodScheduled", "Unschedulable", "FailedScheduling")
NOT_LABELLED = "NamespaceNotLabelled"
REJECTED = "OutOfpods"
STOP_MARGIN = 5.0
"""Seconds beyond the grace period after which a pod that does not end no longer delays the end of the node."""


class ClusterNode:
    def __init__(self, name: str, pod_services: PodServices, directory: Path, addresses: LoopbackAddresses, spawn: Spawn) -> None:
        self.name = name
        self.attached: Attached = pod_services.attached
        self._pod_services = pod_services
        self._directory = directory.absolute()
        self._addresses = addresses
        self._spawn = spawn
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped: set[str] = set()
        """By uid: pods whose programs were stopped because they may not run any more."""
        self._stopping = False
        make_directories(directory)
        self.heartbeat = Heartbeat(pod_services.attached, name, directory, pod_services.clock)

    @property
    def running(self) -> int:
        return sum(not worker.finished for worker in self._workers.values())

    def forget_strangers(self) -> None:
        """Remove the files of pods that were deleted while the node did not run."""
        known = {pod["metadata"]["uid"] for pod in self.attached.view.scan(PODS)}
        for path in self._directory.iterdir():
            if path.name not in known:
                shutil.rmtree(path, ignore_errors=True)

    def touched(self, plural: str, namespace: str, name: str) -> None:
        """A Secret or ConfigMap has changed: pods that use it reload it."""
        for worker in self._workers.values():
            if worker.pod.metadata.namespace == namespace and worker.uses(plural, name):
                worker.refresh()

    def waiting(self) -> list[str]:
        """Keys of pods that no node has bound."""
        pods = (pod for pod in self.attached.view.scan(PODS) if is_waiting(pod))
        return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]

    async def sync(self, key: str) -> None:
        found = self.attached.view.read(PODS, key)
        uid = found["metadata"]["uid"] if found is not None else ""
        for worker in [each for each in self._workers.values() if each.pod.key == key and each.pod.uid != uid]:
            self._vanished(worker)
        if found is None or self._stopping:
            return
        if is_waiting(found):
            await self._bind(found)
        elif found["spec"].get("nodeName") == self.name:
            await self._take(found)

    async def _take(self, found: Object) -> None:
        """Take a pod that is bound to this node. Its creator may have set nodeName, so it is checked like a pending one."""
        try:
            pod = pod_of(found)
        except msgspec.ValidationError as error:
            self.attached.node_events.event(found, "Warning", "FailedValidation", f"this node cannot read the pod: {error}")
            return
        if pod.leaving or pod.status.get("phase") in FINISHED:
            self._keep(pod)
        elif problem := self._withheld(found):
            await self._withhold(pod, found, problem)
        elif pod.uid not in self._workers and (problem := self._too_much(found)):
            await self._reject(found, problem)
        else:
            self._keep(pod)

    def _withheld(self, pod: Object) -> str:
        """Why a valid pod may not run now; empty if it may."""
        namespace = pod["metadata"]["namespace"]
        if self._pod_services.simulate and only_foreign(pod, self._pod_services.images):
            return ""  # nothing runs
        return "" if may_run(self.attached.view.read(NAMESPACES, namespace)) else not_running(namespace)

    async def _withhold(self, pod: Pod, found: Object, problem: str) -> None:
        """Stop its programs; the pod stays, and continues when it may run again."""
        worker = self._workers.get(pod.uid)
        if worker is None and _claims_to_run(found):
            worker = self._worker(pod)
            self._start(worker, self._work(worker))
        if worker is not None:
            self._stopped.add(pod.uid)
            worker.stop(pod.grace)
            return
        await self._refuse(found, problem, ("Ready", NOT_LABELLED, NOT_LABELLED))

    def _too_much(self, pod: Object) -> str:
        return excess(pod) or ("Node didn't have enough resource: pods" if self.running >= MOST_PODS else "")

    async def _reject(self, pod: Object, problem: str) -> None:
        """Reject the pod for good, as a kubelet's admission does with one that a scheduler would not have bound."""
        self.attached.node_events.event(pod, "Warning", REJECTED, problem)
        await self._write_status(pod, {"phase": "Failed", "reason": REJECTED, "message": f"Pod was rejected: {problem}"})

    def _keep(self, pod: Pod) -> None:
        worker = self._workers.get(pod.uid)
        if worker is not None:
            worker.update(pod)
            if worker.finished and pod.leaving and pod.uid not in self._tasks:
                self._start(worker, self._remove(worker))
            return
        worker = self._worker(pod)
        if pod.status.get("phase") in FINISHED:
            worker.finished = True
            if pod.leaving:
                self._start(worker, self._remove(worker))
            return
        if pod.leaving:
            worker.stop(pod.grace)
        self._start(worker, self._work(worker))

    def _worker(self, pod: Pod) -> PodWorker:
        address = Address(self._addresses.take(pod.status.get("podIP") or ""), self.name, NODE_IP)
        worker = self._workers[pod.uid] = PodWorker(pod, address, self._directory / pod.uid, self._pod_services)
        return worker

    def _start(self, worker: PodWorker, work: Work) -> None:
        task = self._tasks[worker.pod.uid] = self._spawn(work, f"pod {worker.pod.key}")

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(worker.pod.uid) is task:
                del self._tasks[worker.pod.uid]

        task.add_done_callback(ended)

    async def _work(self, worker: PodWorker) -> None:
        """Run a worker to its end; one that fails is replaced by another, which takes the pod up as after a restart."""
        backoff = Backoff(1.0, 60.0, random=self._pod_services.random)
        while True:
            try:
                await worker.run()
                break
            except Exception as problem:  # a pod whose worker fails must not stop the others
                log.error("pod worker failed", pod=worker.pod.key, cluster=self.attached.name, exc_info=problem)
                worker.record_event(True, "FailedSync", f"the node failed to run the pod: {type(problem).__name__}: {problem}")
            await sleep(self._pod_services.clock, backoff.next())
            found = self.attached.view.read(PODS, worker.pod.key)
            if self._stopping or worker.gone or found is None or found["metadata"]["uid"] != worker.pod.uid:
                break
            worker = PodWorker(pod_of(found), worker.address, worker.directory, self._pod_services)
            self._workers[worker.pod.uid] = worker
            if worker.pod.leaving:
                worker.stop(worker.pod.grace)
        if worker.pod.leaving or worker.gone:
            await self._remove(worker)
        elif worker.pod.uid in self._stopped and not self._stopping:
            await self._resume(worker)

    async def _resume(self, worker: PodWorker) -> None:
        """For a pod whose programs were stopped because they may not run: write the status, or restart them if they may by now."""
        self._forget(worker)
        found = self.attached.view.read(PODS, worker.pod.key)
        if found is None or found["metadata"]["uid"] != worker.pod.uid:
            return
        problem = self._withheld(found)
        if not problem or found["metadata"].get("deletionTimestamp"):
            self._keep(pod_of(found))
            return
        try:
            await self._refuse(found, problem, ("Ready", NOT_LABELLED, NOT_LABELLED))
        except KubeError as error:
            log.debug("status not written", pod=worker.pod.key, error=str(error))

    def _forget(self, worker: PodWorker) -> None:
        self._stopped.discard(worker.pod.uid)
        self._workers.pop(worker.pod.uid, None)
        self._addresses.give_back(worker.address.ip)
        self._pod_services.local_endpoints.vacated(worker.address.ip)

    async def _remove(self, worker: PodWorker) -> None:
        backoff = Backoff(0.2, 30.0, random=self._pod_services.random)
        while True:
            try:
                await worker.remove()
                break
            except KubeError as problem:
                log.debug("pod not removed yet", pod=worker.pod.key, error=str(problem))
                await sleep(self._pod_services.clock, backoff.next())
        self._forget(worker)

    def _vanished(self, worker: PodWorker) -> None:
        """The object was deleted by force: stop its programs, and remove its files."""
        if self._stopping:
            return
        worker.gone = True
        worker.stop(worker.pod.grace if not worker.pod.leaving else 0.0)
        if worker.finished and worker.pod.uid not in self._tasks:
            self._start(worker, self._remove(worker))

    async def _bind(self, pod: Object) -> None:
        node, metadata = self.attached.view.read(NODES, self.name), pod["metadata"]
        problem = self._withheld(pod) or obstacle(pod, node, self.running, MOST_PODS)
        if not problem and self._pod_services.simulate:
            problem = unbound_claim(self.attached, pod)
        if problem:
            await self._refuse(pod, problem)
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": self.name}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": target,
        }
        try:
            await self.attached.kubelet.create(PODS, binding, metadata["namespace"], name=metadata["name"], subresource="binding")
        except (NotFound, Conflict):
            return
        text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {self.name}"
        self.attached.node_events.event(pod, "Normal", "Scheduled", text)

    async def _refuse(self, pod: Object, problem: str, refusal: tuple[str, str, str] = UNSCHEDULABLE) -> None:
        """`refusal` has the type and reason of the condition that is False, and the event's reason."""
        kind, reason, message = refusal
        former = (pod.get("status") or {}).get("conditions") or ()
        conditions = merged(former, [(kind, False, reason, problem)], self._pod_services.clock.now())
        if conditions == list(former):
            return
        self.attached.node_events.event(pod, "Warning", message, problem)
        await self._write_status(pod, {"conditions": conditions})

    async def _write_status(self, pod: Object, status: Object) -> None:
        try:
            await patch_status(self.attached.kubelet, PODS, pod, {**(pod.get("status") or {}), **status})
        except (NotFound, Conflict):
            return

    async def stop(self, grace: float) -> None:
        """Stop every pod's programs but leave the pods: they continue when the node runs again."""
        self._stopping = True
        for worker in self._workers.values():
            worker.stop(min(grace, worker.pod.grace))
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace + STOP_MARGIN)
            for task in late:
                task.cancel()

    # The kubelet API for the API server.

    async def logs(self, pod: Object, options: LogOptions) -> AsyncGenerator[bytes, None]:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        container = worker.container(options.container) if worker is not None else None
        if container is not None:
            status, live = container_status(container.spec, container.status), container.log
        else:
            status, live = _written_status(pod, options.container), None
        attempt = attempt_to_read(name, options, status)
        directory = self._directory / uid / "logs" / options.container
        if not has_log(directory, attempt):
            raise NoLogs(f'the log of container "{options.container}" in pod "{name}" is no longer kept')
        running = live is not None and live.path.name == f"{attempt}.log"
        return read_log(directory, attempt, options, self._pod_services.clock.now(), live if running else None)


def _claims_to_run(pod: Object) -> bool:
    """Whether its status is from a time when it ran."""
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return any("running" in (each.get("state") or {}) for each in listed)


def _written_status(pod: Object, container: str) -> Object:
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return next((each for each in listed if each["name"] == container), {})


def attempt_to_read(pod: str, options: LogOptions, status: Object) -> int:
    """The number of the attempt whose log is meant; `NoLogs` if there was none, in a kubelet's words."""
    named = f'container "{options.container}" in pod "{pod}"'
    if not status:
        raise NoLogs(f"{named} is not available")
    state, restarts = status.get("state") or {}, int(status.get("restartCount", 0))
    ended = bool((status.get("lastState") or {}).get("terminated"))
    waits = "running" not in state and "terminated" not in state
    if options.previous:
        if not ended:
            raise NoLogs(f"previous terminated {named} not found")
        # While the next attempt waits, the last one is also the previous one.
        return restarts if waits else restarts - 1
    if waits and not ended:
        reason = (state.get("waiting") or {}).get("reason", "")
        raise NoLogs(f"{named} is waiting to start: {reason}" if reason else f"{named} is waiting to start - no logs yet")
    return restarts
