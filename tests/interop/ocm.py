"""Runs upstream's Open Cluster Management programs, unmodified, against clusters of a test.

What the operators would install (CRDs, service accounts, RBAC) is rendered from upstream's templates; each program then
gets a token of its own service account and nothing more, so the API server's authorization is really asked. Only the
administrator's two acts, accepting the cluster and approving its first certificate, are done as admin.
"""

import contextlib
import functools
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support import peers
from tests.support.client import Client, Reply
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import Server, free_ports, tail

HUB_NAMESPACE = "open-cluster-management-hub"
AGENT_NAMESPACE = "open-cluster-management-agent"
BOOTSTRAP_NAMESPACE = "open-cluster-management"
BOOTSTRAP_RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "list", "watch"],
    },
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclusters"],
        "verbs": ["get", "create", "list", "watch"],
    },
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclustersets/join"],
        "verbs": ["create"],
    },
]
MANAGED_CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{namespace}}/rolebindings",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
}


MAPS = "/api/v1/namespaces/default/configmaps"


def work(value: str, name: str = "delivered") -> dict[str, Any]:
    """A ManifestWork `hello` that delivers a ConfigMap."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    return {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": "hello"},
        "spec": {"workload": {"manifests": [{**manifest, "data": {"greeting": value}}]}},
    }


def manifests(which: str) -> list[dict[str, Any]]:
    rendered = subprocess.run([peers.need("ocm-manifests"), which], capture_output=True, text=True, check=True)
    documents = [document for document in yaml.load_all(rendered.stdout, yaml.CSafeLoader) if document]
    for document in documents:
        # Upstream's operator reads a trailing dash as "remove this annotation".
        annotations = document["metadata"].get("annotations") or {}
        document["metadata"]["annotations"] = {k: v for k, v in annotations.items() if not k.endswith("-")}
    return documents


def create(admin: Client, path: str, body: object) -> Reply:
    """Creates, or leaves what is there: two sets of manifests name the same service accounts."""
    reply = admin.post(path, body)
    assert reply.status in (201, 409), f"{path}: {reply.status} {reply.text[:1000]}"
    return reply


@functools.cache
def version() -> tuple[int, ...]:
    """Of upstream's programs: what they say if they were built from its repository, else what is pinned."""
    said = subprocess.run([peers.need("registration"), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bv(\d+(?:\.\d+)+)", said) or re.search(r"/ocm v([\d.]+)", (peers.ROOT / "peers/ocm/go.mod").read_text())
    assert found is not None
    return tuple(map(int, found[1].split(".")))


def install(admin: Client, which: str, namespace: str, only: str = "") -> None:
    """What `which` consists of, or of that what has a name with `only` in it."""
    create(admin, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    definitions = []
    for document in manifests(which):
        if only not in document["metadata"]["name"]:
            continue
        place = document["metadata"].get("namespace", "")
        create(admin, COLLECTIONS[document["kind"]].format(namespace=place), document)
        if document["kind"] == "CustomResourceDefinition":
            definitions.append(document)
    for definition in definitions:
        name = definition["metadata"]["name"]
        wait_until(lambda definition=definition: _served(admin, definition), f"CRD {name} to be served")  # type: ignore[misc]


def install_bootstrap(admin: Client) -> None:
    """The identity with which a new agent may ask to join, as `clusteradm init` makes it."""
    create(admin, "/api/v1/namespaces", {"metadata": {"name": BOOTSTRAP_NAMESPACE}})
    account = {"metadata": {"name": "agent-registration-bootstrap"}}
    create(admin, f"/api/v1/namespaces/{BOOTSTRAP_NAMESPACE}/serviceaccounts", account)
    role = "open-cluster-management:bootstrap"
    create(admin, f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": BOOTSTRAP_RULES})
    subject = {"kind": "ServiceAccount", "namespace": BOOTSTRAP_NAMESPACE, "name": "agent-registration-bootstrap"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": f"{role}:agent-registration"}, "subjects": [subject], "roleRef": reference}
    create(admin, f"{RBAC}/clusterrolebindings", binding)


def _served(admin: Client, definition: dict[str, Any]) -> bool:
    """Whether the server answers for it: its word `Established` comes a moment before it does."""
    spec = definition["spec"]
    versions = [version["name"] for version in spec["versions"] if version["served"]]
    return all(admin.get(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}").status == 200 for version in versions)


def wait_until(done: Callable[[], bool], what: str, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < deadline, f"waited {timeout:g} s for {what}"
        time.sleep(0.1)


def service_account_kubeconfig(cluster: Cluster, admin: Client, namespace: str, name: str, path: Path) -> Path:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    token = admin.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request).expect(201)
    write_kubeconfig(path, cluster.url, cluster.ca, {"token": token["status"]["token"]})
    return path


@dataclass
class Fleet:
    """A hub and one managed cluster with upstream's programs on them."""

    hub: Cluster
    spoke: Cluster
    directory: Path
    name: str = "cluster1"
    servers: list[Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.hub_admin = self.hub.client()
        self.spoke_admin = self.spoke.client()

    @contextlib.contextmanager
    def running(self) -> Iterator["Fleet"]:
        try:
            self.start_hub()
            self.start_registration_agent()
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        for server in reversed(self.servers):
            server.stop(timeout=5)

    def _run(self, name: str, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> None:
        (port,) = free_ports(1)
        program = peers.need(name.partition("-")[0])
        common = ["--disable-leader-election", f"--listen=127.0.0.1:{port}"]
        log = self.directory / f"{name}.log"
        server = Server(name, [program, *arguments, *common], log, {"POD_NAME": name, "KUBECONFIG": "", **(environment or {})})
        server.start()
        self.servers.append(server)

    def prepare_hub(self) -> Path:
        """What the hub's programs find on their cluster; the kubeconfig of the registration controller's account."""
        install(self.hub_admin, "hub", HUB_NAMESPACE)
        install_bootstrap(self.hub_admin)
        return service_account_kubeconfig(
            self.hub, self.hub_admin, HUB_NAMESPACE, "registration-controller-sa", self.directory / "hub.kubeconfig"
        )

    def start_hub(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        own = [f"--kubeconfig={self.prepare_hub()}", f"--namespace={HUB_NAMESPACE}"]
        self._run("registration-controller", "controller", *own, *options, environment=environment)

    def start_registration_agent(self, token: str = "", *options: str, environment: Mapping[str, str] | None = None) -> None:
        """It introduces itself by `token`, or else by one of the bootstrap account."""
        own, bootstrap = self.prepare_registration_agent(token)
        self._run(
            "registration-agent",
            "agent",
            f"--kubeconfig={own}",
            f"--namespace={AGENT_NAMESPACE}",
            f"--spoke-cluster-name={self.name}",
            "--agent-id=agent1",
            f"--bootstrap-kubeconfig={bootstrap}",
            f"--hub-kubeconfig-dir={self.directory / 'hub-kubeconfig'}",
            "--feature-gates=AddonManagement=false",
            *options,
            environment=environment,
        )

    def prepare_registration_agent(self, token: str = "") -> tuple[Path, Path]:
        """What an agent finds on its cluster; the kubeconfigs of its own account there and of its introduction to the hub."""
        install(self.spoke_admin, "agent", AGENT_NAMESPACE)
        own = service_account_kubeconfig(
            self.spoke,
            self.spoke_admin,
            AGENT_NAMESPACE,
            "klusterlet-registration-sa",
            self.directory / "registration.kubeconfig",
        )
        bootstrap = self.directory / "bootstrap.kubeconfig"
        if token:
            write_kubeconfig(bootstrap, self.hub.url, self.hub.ca, {"token": token})
        else:
            service_account_kubeconfig(self.hub, self.hub_admin, BOOTSTRAP_NAMESPACE, "agent-registration-bootstrap", bootstrap)
        secret = {"metadata": {"name": "bootstrap-hub-kubeconfig"}, "stringData": {"kubeconfig": bootstrap.read_text()}}
        create(self.spoke_admin, f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets", secret)
        return own, bootstrap

    def start_work_agent(self, hub: Path | None = None, *options: str) -> None:
        """After the cluster has joined, the agent uses the certificate that registration obtained; else a kubeconfig of the hub."""
        install(self.spoke_admin, "agent", AGENT_NAMESPACE)
        own = service_account_kubeconfig(
            self.spoke, self.spoke_admin, AGENT_NAMESPACE, "klusterlet-work-sa", self.directory / "work.kubeconfig"
        )
        self._run(
            "work-agent",
            "agent",
            f"--kubeconfig={own}",
            f"--namespace={AGENT_NAMESPACE}",
            f"--spoke-cluster-name={self.name}",
            "--agent-id=agent1",
            f"--workload-source-config={hub or self.directory / 'hub-kubeconfig' / 'kubeconfig'}",
            "--status-sync-interval=2s",
            *options,
        )

    def delivered(self, name: str = "delivered") -> str | None:
        """What the ConfigMap of a work says on the managed cluster."""
        reply = self.spoke_admin.get(f"{MAPS}/{name}")
        return reply.json["data"]["greeting"] if reply.status == 200 else None

    # The administrator's part

    def accept(self) -> None:
        wait_until(lambda: self.hub_admin.get(f"{MANAGED_CLUSTERS}/{self.name}").status == 200, "the ManagedCluster")
        self.hub_admin.patch(f"{MANAGED_CLUSTERS}/{self.name}", {"spec": {"hubAcceptsClient": True}}).expect(200)
        wait_until(lambda: bool(self.requests()), "the agent's certificate request")
        for request in self.requests():
            approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "accepted by the test"}
            request.setdefault("status", {})["conditions"] = [approved]
            self.hub_admin.put(f"{CSRS}/{request['metadata']['name']}/approval", request).expect(200)

    def requests(self) -> list[dict[str, Any]]:
        label = f"open-cluster-management.io/cluster-name={self.name}"
        items = self.hub_admin.get(CSRS, query={"labelSelector": label}).expect(200)["items"]
        return [{**item, "kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1"} for item in items]

    def condition(self, kind: str) -> str | None:
        cluster = self.hub_admin.get(f"{MANAGED_CLUSTERS}/{self.name}").expect(200)
        for condition in cluster.get("status", {}).get("conditions", ()):
            if condition["type"] == kind:
                return str(condition["status"])
        return None

    def log(self) -> str:
        return "\n".join(f"--- {server.name}\n{tail(server.log, 25)}" for server in self.servers)


def aged(certificate: bytes, key: bytes) -> bytes:
    """A look-alike that has lived nine tenths of its life, signed by its own key."""
    original = x509.load_pem_x509_certificate(certificate)
    private: Any = serialization.load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(original.subject).issuer_name(original.issuer)
    builder = builder.public_key(private.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=9)).not_valid_after(now + timedelta(hours=1))
    return builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
