"""Upstream's cluster-gateway as a process of its own on a hub, installed as its chart does, with the rights of its own account."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from tests.support import peers
from tests.support.administrator import RBAC, Administrator, Document, service_account_token
from tests.support.client import Client
from tests.support.pki import Authority
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import Server, free_ports

GROUP = "cluster.core.oam.dev"
GATEWAYS = f"/apis/{GROUP}/v1alpha1/clustergateways"
CREDENTIAL_TYPE = f"{GROUP}/cluster-credential-type"
ENDPOINT_TYPE = f"{GROUP}/cluster-endpoint-type"
NAMESPACE = "upstream-gateway"
ACCOUNT = "cluster-gateway"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
API_SERVICE = f"v1alpha1.{GROUP}"


@functools.cache
def programs() -> tuple[Path, Path]:
    """The server, and our program on its client library; perhaps not built."""
    command = ["make", "-s", "-C", str(peers.ROOT / "peers/gateway"), "print-bin"]
    server, client = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Path(server), Path(client)


def built() -> bool:
    return all(program.exists() for program in programs())


class UpstreamGateway(Administrator):
    def __init__(self, cluster: Cluster, directory: Path, credentials: str) -> None:
        """`credentials`: the namespace with the labelled Secrets."""
        super().__init__(cluster)
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._credentials = credentials
        (self.port,) = free_ports(1)
        self._authority = Authority(directory, "upstream-gateway-ca")
        self._serving = self._authority.issue("gateway", hosts=("127.0.0.1", "localhost"))
        self.kubeconfig = directory / "upstream.kubeconfig"
        self.process: Server | None = None

    @property
    def ca(self) -> Path:
        return self._authority.pair.cert

    def install(self) -> None:
        self.admin.post("/api/v1/namespaces", _named("Namespace", "v1", NAMESPACE)).expect(201, 409)
        self.admin.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", _named("ServiceAccount", "v1", ACCOUNT)).expect(201, 409)
        # Its chart's roles are scattered over many objects; what it may do is not what is looked at here.
        binding = {
            **_named("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", "upstream-gateway"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}],
        }
        self.admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201, 409)
        ports = [{"port": self.port, "targetPort": self.port, "protocol": "TCP"}]
        service = {**_named("Service", "v1", "gateway-service"), "spec": {"type": "ExternalName", "externalName": "localhost"}}
        service["spec"]["ports"] = ports
        self.admin.post(f"/api/v1/namespaces/{NAMESPACE}/services", service).expect(201)
        spec = {
            "group": GROUP,
            "version": "v1alpha1",
            "groupPriorityMinimum": 2000,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": "gateway-service", "namespace": NAMESPACE, "port": self.port},
        }
        kind = _named("APIService", "apiregistration.k8s.io/v1", API_SERVICE)
        self.admin.post(API_SERVICES, {**kind, "spec": spec}).expect(201)
        token = service_account_token(self.admin, NAMESPACE, ACCOUNT)
        write_kubeconfig(self.kubeconfig, self.cluster.url, self.cluster.ca, {"token": token})

    def start(self, *flags: str) -> None:
        command: list[str | Path] = [
            programs()[0],
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={self._serving.cert}",
            f"--tls-private-key-file={self._serving.key}",
            f"--secret-namespace={self._credentials}",
            *flags,
        ]
        self.process = Server("upstream's cluster-gateway", command, self._directory / "upstream-gateway.log")
        self.servers[:] = [self.process]
        self.process.start()
        self.process.wait_until(self._serves, 60)
        self.wait_reply(lambda: self.admin.get(GATEWAYS), "upstream's aggregated API", 200, timeout=60)

    def _serves(self) -> bool:
        client = Client(f"https://127.0.0.1:{self.port}", ca=self.ca, timeout=5)
        try:
            return client.get("/readyz").status == 200
        except OSError:
            return False
        finally:
            client.close()

    def stop(self) -> None:
        assert self.process is not None, "started"
        self.process.stop(timeout=10)

    def uninstall(self) -> None:
        """What leads requests to it."""
        self.admin.delete(f"{API_SERVICES}/{API_SERVICE}").expect(200)


def _named(kind: str, version: str, name: str) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
