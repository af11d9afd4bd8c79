"""The two gRPC servers that `bench transport` compares, in turn on one kube-apiserver: `muster grpc-server` and upstream's.

The API server has clusters with everything that agents speak of: an accepted ManagedCluster, a lease, a work, and the rights that a
hub grants. Upstream runs at its defaults (50 requests per second to the API server) and with that limit lifted. Each server has an
account of its own, by which the audit log tells its requests.
"""

from __future__ import annotations

import abc
import asyncio
import time
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

import yaml
from tests.interop import ocm
from tests.interop.grpc_fleet import SERVER_ACCOUNT, listens
from tests.support import peers
from tests.support.pki import Authority
from tests.support.planes import USERS, KubeOptions, KubePlane
from tests.support.processes import Server, free_ports

from bench.audit import AuditLog
from bench.hubs import MUSTER
from bench.sides import cpu_seconds, resident
from bench.transport_load import Endpoint, cluster_name
from muster.machinery.objects import GVR
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from muster.runtime.client.builtin import LEASES, NAMESPACES
from muster.runtime.client.errors import AlreadyExists
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

OUR_ACCOUNT = "muster-grpc-server"
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
        ocm.create(admin, f"/api/v1/namespaces/{ocm.HUB_NAMESPACE}/serviceaccounts", {"metadata": {"name": OUR_ACCOUNT}})
        subject = {"kind": "ServiceAccount", "namespace": ocm.HUB_NAMESPACE, "name": OUR_ACCOUNT}
        reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": OUR_ACCOUNT}, "subjects": [subject], "roleRef": reference}
        ocm.create(admin, f"{ocm.RBAC}/clusterrolebindings", binding)
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
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with turns:
                for making in _objects(client, cluster_name(number)):
                    try:
                        await making
                    except AlreadyExists:
                        continue

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self.clusters):
                    group.create_task(one(number))
        finally:
            await client.close()


def _objects(client: HttpClient, name: str) -> Iterable[Awaitable[object]]:
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
    yield client.create(NAMESPACES, {"metadata": {"name": name}})
    yield client.create(CLUSTERS, {**_kind(CLUSTERS), "metadata": {"name": name}, "spec": {"hubAcceptsClient": True}})
    yield client.create(CLUSTER_ROLES, {"metadata": {"name": role}, "rules": own})
    yield client.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": role}, **bound(role)})
    yield client.create(ROLE_BINDINGS, {"metadata": {"name": "agent", "namespace": name}, **bound(SHARED_ROLE)})
    yield client.create(LEASES, {"metadata": {"name": "managed-cluster-lease", "namespace": name, "labels": label}, "spec": {}})
    spec = {"workload": {"manifests": [{**manifest, "data": {"sent": "0"}}]}}
    yield client.create(WORKS, {**_kind(WORKS), "metadata": {"name": "load", "namespace": name}, "spec": spec})


def _kind(resource: GVR) -> dict[str, str]:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


class GrpcServer(abc.ABC):
    """One server process on the ground."""

    name: str
    account: str

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        (self.port,) = free_ports(1)
        slug = self.name.replace(" ", "-")
        config = ground.directory / f"{slug}.yaml"
        files = {
            "tls_cert_file": str(ground.serving.cert),
            "tls_key_file": str(ground.serving.key),
            "client_ca_file": str(ground.authority.pair.cert),
            "server_bind_port": str(self.port),
        }
        config.write_text(yaml.safe_dump(files))
        self.log = ground.directory / f"{slug}.log"
        self.server = Server(self.name, self.command(ground.kubeconfig(self.account), config), self.log, {"KUBECONFIG": ""})

    @abc.abstractmethod
    def command(self, kubeconfig: Path, config: Path) -> list[str | Path]: ...

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{ocm.HUB_NAMESPACE}:{self.account}"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.port, self.ground.authority)

    def start(self) -> None:
        self.server.start()
        self.server.wait_until(lambda: listens(self.port))
        # Caches fill; upstream's has no sign of when it is done.
        time.sleep(5)

    def stop(self) -> None:
        self.server.stop(timeout=5)

    def memory(self) -> float:
        """MiB"""
        return resident(self.server.pid) / 2**20

    def cpu(self) -> float:
        return cpu_seconds(self.server.pid)


class Ours(GrpcServer):
    name = "muster"
    account = OUR_ACCOUNT

    def command(self, kubeconfig: Path, config: Path) -> list[str | Path]:
        return [MUSTER, "grpc-server", f"--kubeconfig={kubeconfig}", f"--server-config={config}", "--health-port=0"]


class Upstream(GrpcServer):
    name = "upstream"
    account = SERVER_ACCOUNT
    extra: tuple[str, ...] = ()

    def command(self, kubeconfig: Path, config: Path) -> list[str | Path]:
        (health,) = free_ports(1)
        return [
            peers.need("server"),
            "grpc",
            f"--kubeconfig={kubeconfig}",
            f"--namespace={ocm.HUB_NAMESPACE}",
            f"--listen=127.0.0.1:{health}",
            f"--server-config={config}",
            "--disable-leader-election",
            *self.extra,
        ]


class Lifted(Upstream):
    name = "upstream without its rate limit"
    extra = ("--kube-api-qps=10000", "--kube-api-burst=20000")
