"""Upstream's programs around addons, as processes on a hub of a test: each with the rights that upstream's manifests give it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.interop import ocm
from tests.interop.addon.addon_site import AddonSite
from tests.support import peers
from tests.support.administrator import AVAILABLE, HUB_NAMESPACE, RBAC, Document
from tests.support.client import Client
from tests.support.network_namespace import NetworkNamespace
from tests.support.planes import Cluster
from tests.support.processes import Server, free_ports
from tests.support.registration import Hub, Spoke

REPLICA_SETS = "--feature-gates=ManifestWorkReplicaSet=true"
MANAGER_ACCOUNT = "addon-manager-controller-sa"


@contextlib.contextmanager
def upstreams_managers(hub: Hub, directory: Path) -> Iterator[None]:
    """Its addon manager, and its controller of replica sets."""
    fleet = ocm.Fleet(hub.cluster, hub.cluster, directory)
    ocm.install(hub.admin, "addon-manager", HUB_NAMESPACE)
    ocm.install(hub.admin, "hub", HUB_NAMESPACE, only="work")
    for name, account, flags in (("addon", MANAGER_ACCOUNT, ()), ("work", "work-controller-sa", (REPLICA_SETS,))):
        own = ocm.service_account_kubeconfig(hub.cluster, hub.admin, HUB_NAMESPACE, account, directory / f"{name}.kubeconfig")
        fleet._run(f"{name}-manager", "manager", f"--kubeconfig={own}", f"--namespace={HUB_NAMESPACE}", *flags)
    hub.servers += fleet.servers
    try:
        yield
    finally:
        fleet.stop()


@contextlib.contextmanager
def upstreams_placement(hub: Hub, directory: Path) -> Iterator[None]:
    """It looks for ConfigMaps and Pods at its start and ends without them, so it runs as administrator."""
    fleet = ocm.Fleet(hub.cluster, hub.cluster, directory)
    fleet._run("placement-controller", "controller", f"--kubeconfig={hub.cluster.kubeconfig}")
    hub.servers += fleet.servers
    try:
        yield
    finally:
        fleet.stop()


@contextlib.contextmanager
def upstreams_agents(hub: Hub, cluster: Cluster, directory: Path, name: str) -> Iterator[AddonSite]:
    """Its registration agent, which keeps addons' credentials, and its work agent; the hub accepts the cluster by itself."""
    fleet = ocm.Fleet(hub.cluster, cluster, directory, name)
    spoke = Spoke(cluster, directory)
    try:
        fleet.start_registration_agent("", "--feature-gates=AddonManagement=true")
        hub.servers += fleet.servers
        hub.wait_condition(name, AVAILABLE, timeout=60)
        fleet.start_work_agent()
        hub.servers.append(fleet.servers[-1])
        # Where addons are installed: upstream's operator makes it.
        ocm.create(spoke.admin, "/api/v1/namespaces", {"metadata": {"name": "open-cluster-management-agent-addon"}})
        # And somebody who may bring what addons consist of.
        grant(spoke.admin, "works-of-addons", {"namespace": ocm.AGENT_NAMESPACE, "name": "klusterlet-work-sa"})
        yield AddonSite(hub, spoke, name)
    finally:
        fleet.stop()


def grant(admin: Client, name: str, account: Document, role: str = "cluster-admin") -> None:
    subject = {"kind": "ServiceAccount", **account}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    ocm.create(admin, f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})


@contextlib.contextmanager
def helloworld(hub: Hub, directory: Path, part: str, *flags: str) -> Iterator[None]:
    """A part of upstream's example addon, `controller` or `agent`. Each listens on a port that nobody can choose, and for all the
    world: so it has a network of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    port = urlsplit(hub.cluster.url).port
    (unused,) = free_ports(1)
    assert port is not None
    with NetworkNamespace(directory, let_out=port, let_in=unused) as namespace:
        command: list[str | Path] = [*namespace.within, peers.need("helloworld"), part, *flags]
        environment = {"POD_NAME": "helloworld", "POD_NAMESPACE": "default", "KUBECONFIG": ""}
        server = Server(f"upstream's helloworld {part}", command, directory / f"{part}.log", environment)
        hub.servers.append(server)
        server.start()
        try:
            yield
        finally:
            server.stop(timeout=5)
            hub.servers.remove(server)
