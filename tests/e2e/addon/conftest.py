"""A hub with registration, placement and addon manager as processes, and a managed cluster with its agents, for addons.

`site` has one managed cluster that is really there, joined once; clusters that only the hub knows are made by tests that need many.
`grpc` adds a gRPC server to the same hub, for clusters that know nothing else of it.
Names of addons are given once, so tests do not meet.
"""

from __future__ import annotations

import base64
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.registration.agent.install import ADDON_ROLE
from tests.e2e.transport.conftest import Site as GrpcSite
from tests.e2e.transport.conftest import hub_flags
from tests.support.administrator import AVAILABLE, RBAC, Document, managed_cluster, read_secret, service_account_token
from tests.support.client import Client
from tests.support.hub_components import AddonHub, HubComponent, PlacementHub
from tests.support.pki import Authority
from tests.support.planes import Cluster, ControlPlane, lent, write_kubeconfig
from tests.support.processes import Server, complaints, free_ports, tail
from tests.support.registration import MUSTER, Agent, Hub, Spoke

ADDONS = "/apis/addon.open-cluster-management.io/v1alpha1"
ADDON_GROUP = "addon.open-cluster-management.io"
WORKS = "/apis/work.open-cluster-management.io/v1"
CLUSTERS = "/apis/cluster.open-cluster-management.io"
INSTALL_NAMESPACE = "open-cluster-management-agent-addon"
TEMPLATES = {"group": ADDON_GROUP, "resource": "addontemplates"}
CONFIGS = {"group": ADDON_GROUP, "resource": "addondeploymentconfigs"}

_numbers = itertools.count(1)


def deployment(name: str, namespace: str = INSTALL_NAMESPACE, **metadata: Any) -> Document:
    labels = {"app": name}
    container = {"name": "agent", "image": "quay.io/example/agent:v1", "args": ["--cluster={{CLUSTER_NAME}}"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def config_map(name: str, namespace: str = INSTALL_NAMESPACE, data: dict[str, str] | None = None, **metadata: Any) -> Document:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {**kind, "metadata": {"name": name, "namespace": namespace, **metadata}, "data": data or {}}


@dataclass
class Site:
    hub: Hub
    placement: PlacementHub
    addons: AddonHub
    spoke: Spoke
    agent: Agent
    fleet: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> str:
        return self.agent.name

    @property
    def admin(self) -> Client:
        return self.hub.admin

    # What an administrator makes

    def name(self, prefix: str = "addon") -> str:
        return f"{prefix}{next(_numbers)}"

    def template(
        self, addon: str, *manifests: Document, registration: list[Document] | None = None, name: str = "", **agent_spec: Any
    ) -> str:
        name = name or f"{addon}-1"
        spec: Document = {"addonName": addon, "agentSpec": {"workload": {"manifests": list(manifests)}, **agent_spec}}
        if registration is not None:
            spec["registration"] = registration
        kind = {"apiVersion": f"{ADDON_GROUP}/v1alpha1", "kind": "AddOnTemplate"}
        self.admin.post(f"{ADDONS}/addontemplates", {**kind, "metadata": {"name": name}, "spec": spec}).expect(201)
        return name

    def offer(self, addon: str, template: str = "", *, placements: list[Document] | None = None, **metadata: Any) -> Document:
        """A ClusterManagementAddOn."""
        supported: list[Document] = [{**TEMPLATES, **({"defaultConfig": {"name": template}} if template else {})}, CONFIGS]
        strategy: Document = {"type": "Placements", "placements": placements} if placements else {"type": "Manual"}
        kind = {"apiVersion": f"{ADDON_GROUP}/v1alpha1", "kind": "ClusterManagementAddOn"}
        spec = {"supportedConfigs": supported, "installStrategy": strategy}
        body = {**kind, "metadata": {"name": addon, **metadata}, "spec": spec}
        return dict(self.admin.post(f"{ADDONS}/clustermanagementaddons", body).expect(201))

    def config(self, name: str, namespace: str = "default", **spec: Any) -> Document:
        """An AddOnDeploymentConfig as a reference to it."""
        kind = {"apiVersion": f"{ADDON_GROUP}/v1alpha1", "kind": "AddOnDeploymentConfig"}
        place = f"{ADDONS}/namespaces/{namespace}/addondeploymentconfigs"
        self.admin.post(place, {**kind, "metadata": {"name": name}, "spec": spec}).expect(201)
        return {**CONFIGS, "namespace": namespace, "name": name}

    def enable(self, addon: str, cluster: str = "", configs: list[Document] | None = None, **metadata: Any) -> Document:
        kind = {"apiVersion": f"{ADDON_GROUP}/v1alpha1", "kind": "ManagedClusterAddOn"}
        spec: Document = {"configs": configs} if configs else {}
        body = {**kind, "metadata": {"name": addon, **metadata}, "spec": spec}
        return dict(self.admin.post(self.path(addon, cluster, name=False), body).expect(201))

    def disable(self, addon: str, cluster: str = "") -> None:
        self.admin.delete(self.path(addon, cluster)).expect(200)

    def path(self, addon: str, cluster: str = "", *, name: bool = True) -> str:
        return f"{ADDONS}/namespaces/{cluster or self.cluster}/managedclusteraddons" + (f"/{addon}" if name else "")

    def known_cluster(self, name: str, labels: dict[str, str] | None = None) -> str:
        """One that only the hub knows."""
        body = managed_cluster(name, accepted=True)
        body["metadata"]["labels"] = labels or {}
        self.admin.post(f"{CLUSTERS}/v1/managedclusters", body).expect(201)
        self.hub.wait_reply(lambda: self.admin.get(f"/api/v1/namespaces/{name}"), f"namespace {name}", 200)
        self.fleet.append(name)
        return name

    def place(self, name: str, labels: dict[str, str], **spec: Any) -> Document:
        """A Placement in `default` on all clusters with these labels, as a reference to it."""
        binding = {"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding"}
        body = {**binding, "metadata": {"name": "global"}, "spec": {"clusterSet": "global"}}
        reply = self.admin.post(f"{CLUSTERS}/v1beta2/namespaces/default/managedclustersetbindings", body)
        assert reply.status in (201, 409), reply.text
        kind = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement"}
        predicate = {"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}
        tolerations = [{"operator": "Exists"}]
        placement = {**kind, "metadata": {"name": name}, "spec": {"predicates": [predicate], "tolerations": tolerations, **spec}}
        self.admin.post(f"{CLUSTERS}/v1beta1/namespaces/default/placements", placement).expect(201)
        return {"namespace": "default", "name": name}

    # What there is to see

    def find(self, addon: str, cluster: str = "") -> Document | None:
        return self.hub.read(self.path(addon, cluster))

    def status(self, addon: str, cluster: str = "") -> Document:
        return dict((self.find(addon, cluster) or {}).get("status") or {})

    def condition(self, addon: str, kind: str, cluster: str = "") -> Document:
        conditions = self.status(addon, cluster).get("conditions") or []
        return next((dict(one) for one in conditions if one["type"] == kind), {})

    def wait(
        self, addon: str, kind: str, status: str = "True", reason: str = "", cluster: str = "", timeout: float = 60
    ) -> Document:
        def look() -> Document | None:
            found = self.condition(addon, kind, cluster)
            return found if found.get("status") == status and reason in ("", found.get("reason")) else None

        try:
            return self.hub.wait(look, f"{kind}={status} {reason} of {addon}", 60)
        except AssertionError as error:
            raise AssertionError(f"{yaml.safe_dump(self.find(addon, cluster))}\n{error}") from None

    def works(self, addon: str, cluster: str = "") -> list[Document]:
        selector = f"labelSelector=open-cluster-management.io/addon-name={addon}"
        found = self.admin.get(f"{WORKS}/namespaces/{cluster or self.cluster}/manifestworks?{selector}").expect(200)
        return sorted(found["items"], key=lambda work: str(work["metadata"]["name"]))

    def let_works_go(self, addon: str, cluster: str = "") -> None:
        """As an administrator does whose cluster's work agent will not come back."""
        for work in self.works(addon, cluster):
            path = f"{WORKS}/namespaces/{cluster or self.cluster}/manifestworks/{work['metadata']['name']}"
            self.admin.patch(path, {"metadata": {"finalizers": None}})

    def on_cluster(self, path: str) -> Document | None:
        """An object of the managed cluster."""
        reply = self.spoke.admin.get(path)
        return None if reply.status == 404 else dict(reply.expect(200))

    def wait_on_cluster(self, path: str, timeout: float = 60) -> Document:
        return self.hub.wait(lambda: self.on_cluster(path), path, timeout)

    def secret(self, name: str, namespace: str = INSTALL_NAMESPACE) -> dict[str, bytes]:
        return read_secret(self.spoke.admin, namespace, name)

    def wait_secret(self, name: str, namespace: str = INSTALL_NAMESPACE) -> dict[str, bytes]:
        return self.hub.wait(lambda: self.secret(name, namespace), f"Secret {name}", 60)

    # What a kubelet does for an addon's agent: there is none

    def mount(self, secret: str, directory: Path, namespace: str = INSTALL_NAMESPACE) -> Path:
        """The Secret as files; done again, they are as it is now."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self.wait_secret(secret, namespace).items():
            beside = directory / f".{name}"
            beside.touch(mode=0o600)
            beside.write_bytes(content)
            beside.replace(directory / name)
        return directory

    def account_kubeconfig(self, account: str, directory: Path, namespace: str = INSTALL_NAMESPACE) -> Path:
        """Of a service account of the addons' namespace, on the managed cluster."""
        token = service_account_token(self.spoke.admin, namespace, account)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "spoke.kubeconfig"
        write_kubeconfig(path, self.spoke.cluster.url, self.spoke.cluster.ca, {"token": token})
        return path

    def let_agent_in(self, namespace: str, agent: Agent | None = None) -> None:
        """As the Klusterlet operator does in every namespace with the label for addons; `agent` is another one on this cluster."""
        found = self.wait_on_cluster(f"/api/v1/namespaces/{namespace}")
        assert found["metadata"]["labels"]["addon.open-cluster-management.io/namespace"] == "true"
        account = {"kind": "ServiceAccount", "name": "klusterlet-registration-sa", "namespace": (agent or self.agent).namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ADDON_ROLE}
        body = {"metadata": {"name": "addon-management"}, "roleRef": role, "subjects": [account]}
        self.spoke.admin.post(f"{RBAC}/namespaces/{namespace}/rolebindings", body).expect(201)

    def run_pods(self, name: str, namespace: str = INSTALL_NAMESPACE, *, ready: int = 1) -> None:
        """As a kubelet and the controller of Deployments would report: there is neither here."""
        place = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        generation = self.wait_on_cluster(place)["metadata"]["generation"]
        status = {"observedGeneration": generation, "replicas": 1, "readyReplicas": ready, "availableReplicas": ready}
        self.spoke.admin.patch(f"{place}/status", {"status": status}).expect(200)

    def addon_client(self, secret: dict[str, bytes]) -> Client:
        """The hub as the addon's agent reaches it, with what is in its Secret."""
        config = yaml.safe_load(secret["kubeconfig"])
        (cluster,) = config["clusters"]
        (user,) = config["users"]
        folder = Path(tempfile.mkdtemp())
        ca = folder / "ca.crt"
        given = cluster["cluster"].get("certificate-authority-data")
        # An agent passes on what its bootstrap kubeconfig has.
        ca.write_bytes(base64.b64decode(given) if given else Path(cluster["cluster"]["certificate-authority"]).read_bytes())
        for name in ("tls.crt", "tls.key"):
            if name in secret:
                path = folder / name
                path.touch(mode=0o600)
                path.write_bytes(secret[name])
        if "tokenFile" in user["user"]:
            return Client(cluster["cluster"]["server"], ca=ca, token=secret["token"].decode())
        assert user["user"] == {"client-certificate": "tls.crt", "client-key": "tls.key"}
        return Client(cluster["cluster"]["server"], ca=ca, certificate=(folder / "tls.crt", folder / "tls.key"))


def work_agent(agent: Agent, managed: Cluster | None = None) -> Server:
    """Applies the addons' works, with the rights that it gives itself as administrator, on `managed` if the agent runs elsewhere.
    Two of one hub may be on one cluster here, so each knows its records by its own name."""
    admin = (managed or agent.spoke.cluster).kubeconfig
    (health,) = free_ports(1)
    command: list[str | Path] = [MUSTER, "work-agent", f"--spoke-kubeconfig={admin}", f"--kubeconfig={admin}", "--install"]
    command += [f"--cluster-name={agent.name}", f"--namespace={agent.namespace}", f"--health-port={health}"]
    command += [f"--hub-kubeconfig={agent.files / 'kubeconfig'}", f"--agent-id={agent.name}"]
    return Server(f"muster work-agent {agent.name}", command, agent.spoke.directory / f"{agent.name}-work-agent.log")


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("addon"), "spoke")


@pytest.fixture(scope="package")
def grpc_signer(ground: ControlPlane) -> Authority:
    return Authority(ground.directory, "grpc signer")


@contextmanager
def open_site(ground: ControlPlane, grpc_signer: Authority) -> Iterator[Site]:
    hub = Hub(ground.cluster, ground.directory / "hub", hub_flags(grpc_signer))
    hub.install()
    hub.start()
    placement = PlacementHub(ground.cluster, ground.directory / "placement")
    addons = AddonHub(ground.cluster, ground.directory / "addon-manager")
    for component in (placement, addons):
        component.install()
        component.start()
        hub.servers += component.servers
    spoke = Spoke(ground.extra("spoke"), ground.directory / "agents")
    agent = Agent(spoke, hub, f"managed{os.getpid()}", hub.trusted_kubeconfig()).start()
    hub.wait_condition(agent.name, AVAILABLE)
    works = work_agent(agent)
    hub.servers.append(works)
    works.start()
    yield Site(hub, placement, addons, spoke, agent)
    works.stop(timeout=10)
    agent.stop()
    for component in (placement, addons):
        component.stop()
    hub.stop()
    assert addons.process is not None
    # Of what cannot be read, one is told.
    assert [one for one in complaints(addons.process.log) if "MalformedObject" not in one] == []


@contextmanager
def hosted_agent(site: Site) -> Iterator[Agent]:
    """Of a cluster whose agents run on the managed cluster of the site. The hub is that cluster: it is one more that is there."""
    name = site.name("hosted")
    managed = Spoke(site.hub.cluster, site.hub.kubeconfig.parent / name)
    flags = (f"--spoke-kubeconfig={managed.prepare(f'agent-{name}')}",)
    agent = Agent(site.spoke, site.hub, name, site.hub.trusted_kubeconfig(), flags).start()
    site.hub.wait_condition(agent.name, AVAILABLE)
    works = work_agent(agent, site.hub.cluster)
    site.hub.servers.append(works)
    works.start()
    yield agent
    works.stop(timeout=10)
    site.hub.servers.remove(works)
    agent.stop()


@contextmanager
def served(site: Site, component: HubComponent) -> Iterator[None]:
    """An addon's side on the hub, as a process that has nothing to complain about."""
    component.install()
    component.start()
    site.hub.servers += component.servers
    yield
    component.stop()
    assert component.process is not None
    assert complaints(component.process.log) == []


@pytest.fixture(scope="package")
def site(ground: ControlPlane, grpc_signer: Authority) -> Iterator[Site]:
    with open_site(ground, grpc_signer) as found:
        yield found


@pytest.fixture(scope="package")
def grpc(site: Site, ground: ControlPlane, grpc_signer: Authority) -> Iterator[GrpcSite]:
    found = GrpcSite(site.hub, site.spoke, ground.directory, grpc_signer)
    found.install_server()
    found.server("grpc-server")
    yield found
    found.stop_agents()
    for server in list(found.servers):
        found.end(server)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    site = getattr(item, "funcargs", {}).get("site")
    if report.failed and isinstance(site, Site):
        for process in site.hub.servers:
            report.sections.append((process.name, tail(process.log, 25)))
