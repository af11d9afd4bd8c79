"""The Node object of a cluster without machines, and its heartbeat.

As with kubelets, the heartbeat is a Lease in kube-node-lease, renewed every ten seconds; the Node itself is written when something
changes and every five minutes. Labels and taints of other clients stay; cordoning it keeps new pods away.
"""

from __future__ import annotations

import os
import platform
import shutil
from datetime import datetime
from pathlib import Path

from muster.apiserver.nonresource.health import VERSION
from muster.fleet.attached import Attached
from muster.fleet.node.addresses import NODE_IP
from muster.fleet.node.environment import machine_memory
from muster.fleet.node.states import SCHEME
from muster.machinery.clock import Clock, sleep
from muster.machinery.golang.timestamps import format_micro_time, format_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, KubeError, NotFound, patch_changes, patch_status
from muster.runtime.client.builtin import LEASES, NODES

log = get_logger("muster.fleet.node")
NAMESPACE = "kube-node-lease"
LEASE_SECONDS, RENEW_SECONDS, REPORT_SECONDS = 40, 10.0, 300.0
MOST_PODS = 250
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def node_labels(name: str) -> dict[str, str]:
    system = platform.system().lower()
    labels = {"kubernetes.io/arch": architecture(), "kubernetes.io/os": system, "kubernetes.io/hostname": name}
    return labels | {"beta.kubernetes.io/arch": architecture(), "beta.kubernetes.io/os": system}


def node_status(present: Object, name: str, directory: Path, now: datetime, kubelet_api: int = 0) -> Object:
    """The capacity of this machine, condition Ready, and the port on which another API server may read logs.

    All clusters of a process share the machine, and each shows its whole capacity.
    """
    disk = shutil.disk_usage(directory).total
    capacity = {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{machine_memory() // 1024}Ki",
        "ephemeral-storage": f"{disk // 1024}Ki",
        "pods": str(MOST_PODS),
    }
    before = {each["type"]: each for each in present.get("conditions") or ()}
    conditions = []
    for kind, status, reason, message in (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "Muster's node runtime runs pods of Muster's image as tasks"),
    ):
        known = before.get(kind) or {}
        since = known["lastTransitionTime"] if known.get("status") == status else format_time(now)
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        conditions.append({**condition, "lastHeartbeatTime": format_time(now), "lastTransitionTime": since})
    return {
        **present,
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": conditions,
        # An API server that reads logs would prefer the host name, which has no DNS record.
        "addresses": [
            {"type": "InternalIP", "address": NODE_IP},
            *([] if kubelet_api else [{"type": "Hostname", "address": name}]),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_api}},
        "nodeInfo": {
            "architecture": architecture(),
            "operatingSystem": platform.system().lower(),
            "kernelVersion": platform.release(),
            "osImage": platform.platform(terse=True),
            "containerRuntimeVersion": f"{SCHEME}{platform.python_version()}",
            "kubeletVersion": VERSION["gitVersion"],
            "kubeProxyVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


class Heartbeat:
    def __init__(self, attached: Attached, name: str, directory: Path, clock: Clock) -> None:
        self._attached = attached
        self._client = attached.kubelet
        self._name = name
        self._directory = directory
        self._clock = clock
        self.kubelet_api = 0
        """The port of the node's kubelet API; 0 if it has none."""

    async def run(self) -> None:
        """Run until cancelled. After an error of the server, the next heartbeat retries."""
        due = float("-inf")
        while True:
            try:
                if self._clock.monotonic() >= due or self._attached.view.read(NODES, self._name) is None:
                    await self._report()
                    due = self._clock.monotonic() + REPORT_SECONDS
                await self._renew()
            except (KubeError, OSError) as problem:
                log.warning("heartbeat refused", node=self._name, cluster=self._attached.name, error=str(problem))
            await sleep(self._clock, RENEW_SECONDS)

    async def _report(self) -> None:
        present = self._attached.view.read(NODES, self._name)
        if present is None:
            wanted: Object = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": self._name, "labels": node_labels(self._name)},
            }
            try:
                present = await self._client.create(NODES, wanted)
            except AlreadyExists:
                present = await self._client.get(NODES, self._name)
        labels = {**(present["metadata"].get("labels") or {}), **node_labels(self._name)}
        changed = {**present, "metadata": {**present["metadata"], "labels": labels}}
        await patch_changes(self._client, NODES, present, changed)
        status = node_status(present.get("status") or {}, self._name, self._directory, self._clock.now(), self.kubelet_api)
        await patch_status(self._client, NODES, present, status)

    async def _renew(self) -> None:
        moment = format_micro_time(self._clock.now())
        try:
            await self._client.patch(LEASES, self._name, {"spec": {"renewTime": moment}}, NAMESPACE)
            return
        except NotFound:
            pass
        node = self._attached.view.read(NODES, self._name)
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]} if node else None
        metadata: Object = {"name": self._name, "namespace": NAMESPACE, **({"ownerReferences": [owner]} if owner else {})}
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": moment}
        await self._client.create(LEASES, {"metadata": metadata, "spec": spec})
