"""The two gRPC servers that `bench transport` compares, in turn on one kube-apiserver: `muster grpc-server` and upstream's.

The API server has clusters with everything that agents speak of: an accepted ManagedCluster, a lease, a work, and the rights that a
hub grants. Upstream runs at its defaults (50 requests per second to the API server) and with that limit lifted. Each server has an
account of its own, by which the audit log tells its requests.
"""

from __future__ import annotations

import abc
import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.interop import ocm
from tests.interop.grpc_fleet import GO, MUSTER, ServerProgram, install_our_account, listens, write_server_config
from tests.support.pki import Authority
from tests.support.planes import USERS, KubeOptions, KubePlane
from tests.support.processes import Server, free_ports

from bench.audit import AuditLog
from bench.sides import cpu_seconds, resident
from bench.transport_load import Endpoint, cluster_name
from muster.machinery.objects import GVR, Object
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import LEASES, NAMESPACES
from muster.runtime.client.errors import AlreadyExists
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

PREFIX = "system:open-cluster-management:"
CLUSTERS = GVR("cluster.open-cluster-management.io/v1", "managedclusters", "ManagedCluster")
WORKS = GVR("work.open-cluster-management.io/v1", "manifestworks", "ManifestWork")
RBAC_GROUP = "rbac.authorization.k8s.io"
SHARED_ROLE = "bench:agent"
SHARED_RULES: list[dict[str, Any]] = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "update"]},
    {"apiGroups": ["addon.open-cluster-management.io"], "resources": ["managedclusteraddons"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["work.open-cluster-management.io"],
        "resources": ["manifestworks", "manifestworks/status"],
        "verbs": ["get", "list", "watch", "update", "patch"],
    },
]
AT_ONCE = 16


class Ground:
    """The API server with its clusters."""

    def __init__(self, directory: Path, clusters: int) -> None:
        self.directory = directory
        self.clusters = clusters
        self.plane = KubePlane(directory / "plane", KubeOptions(audit_log=True))
        self.audit = AuditLog(directory / "plane" / "audit.log")
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(directory, "agents")
        self.serving = self.authority.issue("grpc-server", hosts=("127.0.0.1",))

    def start(self) -> None:
        self.plane.start()
        admin = self.plane.client()
        ocm.install(admin, "hub-grpc", ocm.HUB_NAMESPACE)
        install_our_account(admin)
        ocm.create(admin, f"{ocm.RBAC}/clusterroles", {"metadata": {"name": SHARED_ROLE}, "rules": SHARED_RULES})
        admin.close()
        asyncio.run(self._populate())

    def kubeconfig(self, account: str) -> Path:
        path = self.directory / f"{account}.kubeconfig"
        return ocm.service_account_kubeconfig(self.plane.cluster, self.plane.client(), ocm.HUB_NAMESPACE, account, path)

    def requests(self, user: str, since: int, until: int) -> int:
        return sum(request.user == user for request in self.audit.requests(since, until))

    def kube_flags(self) -> dict[str, object]:
        """For a load that writes on the hub."""
        return {"kube": self.plane.url, "kube_ca": self.plane.ca, "token": USERS["admin"].token}

    def discard(self) -> None:
        self.plane.discard()

    async def _populate(self) -> None:
        client = HttpClient(load_kubeconfig(self.plane.kubeconfig), agent="bench")
        try:
            await populate(client, self.clusters)
        finally:
            await client.close()


async def populate(client: KubeClient, clusters: int) -> None:
    """Make so many clusters, as far as they are not there."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with turns:
            for resource, made in _objects(cluster_name(number)):
                try:
                    await client.create(resource, made)
                except AlreadyExists:
                    continue

    async with asyncio.TaskGroup() as group:
        for number in range(clusters):
            group.create_task(one(number))


def _objects(name: str) -> Iterable[tuple[GVR, Object]]:
    group = {"kind": "Group", "apiGroup": RBAC_GROUP, "name": PREFIX + name}
    own = [
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests"],
            "verbs": ["create", "get", "list", "watch"],
        },
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": ["managedclusters", "managedclusters/status"],
            "resourceNames": [name],
            "verbs": ["get", "list", "watch", "update", "patch"],
        },
    ]
    role = f"bench:{name}"

    def bound(role: str) -> dict[str, Any]:
        return {"subjects": [group], "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}}

    label = {"open-cluster-management.io/cluster-name": name}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "load", "namespace": "default"}}
    yield NAMESPACES, {"metadata": {"name": name}}
    yield CLUSTERS, {**_kind(CLUSTERS), "metadata": {"name": name}, "spec": {"hubAcceptsClient": True}}
    yield CLUSTER_ROLES, {"metadata": {"name": role}, "rules": own}
    yield CLUSTER_ROLE_BINDINGS, {"metadata": {"name": role}, **bound(role)}
    yield ROLE_BINDINGS, {"metadata": {"name": "agent", "namespace": name}, **bound(SHARED_ROLE)}
    yield LEASES, {"metadata": {"name": "managed-cluster-lease", "namespace": name, "labels": label}, "spec": {}}
    spec = {"workload": {"manifests": [{**manifest, "data": {"sent": "0"}}]}}
    yield WORKS, {**_kind(WORKS), "metadata": {"name": "load", "namespace": name}, "spec": spec}


def _kind(resource: GVR) -> dict[str, str]:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


class MeasuredServer(abc.ABC):
    """One server process."""

    name: str
    server: Server

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.directory = directory
        self.authority = authority
        """Of its certificate and of its clients'."""
        (self.port,) = free_ports(1)

    @abc.abstractmethod
    def start(self) -> None:
        """Until it serves."""

    @abc.abstractmethod
    def kube_flags(self) -> dict[str, object]:
        """For a load that writes on the hub."""

    def mark(self) -> int:
        """A moment, for `requests`."""
        return 0

    def requests(self, since: int) -> int:
        """To an API server that is another process."""
        return 0

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.port, self.authority)

    def stop(self) -> None:
        self.server.stop(timeout=5)

    def memory(self) -> float:
        """MiB"""
        return resident(self.server.pid) / 2**20

    def cpu(self) -> float:
        return cpu_seconds(self.server.pid)


class GrpcServer(MeasuredServer):
    """One that stands on the ground."""

    program: ServerProgram
    extra: tuple[str, ...] = ()

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground.directory, ground.authority)
        self.ground = ground
        (health,) = free_ports(1)
        slug = self.name.replace(" ", "-")
        config = write_server_config(ground.directory / f"{slug}.yaml", ground.serving, ground.authority.pair.cert, self.port)
        command = [*self.program.command(ground.kubeconfig(self.program.account), config, health), *self.extra]
        self.server = Server(self.name, command, ground.directory / f"{slug}.log", {"KUBECONFIG": ""})

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{ocm.HUB_NAMESPACE}:{self.program.account}"

    def mark(self) -> int:
        return self.ground.audit.mark()

    def requests(self, since: int) -> int:
        return self.ground.requests(self.user, since, self.ground.audit.mark())

    def kube_flags(self) -> dict[str, object]:
        return self.ground.kube_flags()

    def start(self) -> None:
        self.server.start()
        self.server.wait_until(lambda: listens(self.port))
        # Caches fill; upstream's has no sign of when it is done.
        time.sleep(5)


class Ours(GrpcServer):
    name = "muster"
    program = MUSTER


class Paced(GrpcServer):
    """Upstream at its defaults. How soon an agent has what a hub writes does not depend on its limit, and is not measured here."""

    name = "upstream"
    program = GO


class Lifted(GrpcServer):
    name = "upstream without its rate limit"
    program = GO
    extra = ("--kube-api-qps=10000", "--kube-api-burst=20000")
