"""A hub and managed clusters that meet over gRPC, with every end either upstream's program or ours.

`GrpcHub` is a cluster with a hub's controller and a gRPC server on it; `GrpcAgents` are the registration and the work agent of one
managed cluster, which reach that server by a link that a test can cut, and nothing else of the hub. Which programs they are is a
parameter of each, so a scenario is written once for all combinations.

Upstream's programs run with the accounts and rights that upstream's manifests give them.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.interop import ocm
from tests.support import peers
from tests.support.administrator import Administrator, service_account_token
from tests.support.client import Client
from tests.support.link import Link
from tests.support.pki import Authority
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import Server, free_ports

BOOTSTRAP_ACCOUNT: Final = "agent-registration-bootstrap"
BOOTSTRAP_USER: Final = f"system:serviceaccount:{ocm.BOOTSTRAP_NAMESPACE}:{BOOTSTRAP_ACCOUNT}"
GRPC_SIGNER: Final = "open-cluster-management.io/grpc"
SERVER_ACCOUNT: Final = "grpc-server-sa"
WORK_API: Final = "/apis/work.open-cluster-management.io/v1"
CERTIFICATE_POLL: Final = "5s"
"""How often upstream's agents look whether their certificate has changed; five minutes unless told."""
Document = dict[str, Any]


@dataclass
class GrpcHub:
    """Upstream's `registration controller` and `server grpc`. `flags` are more of the controller's."""

    cluster: Cluster
    directory: Path
    flags: Sequence[str] = ()
    servers: list[Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.admin = self.cluster.client()
        self.administrator = Administrator(self.cluster)
        self.signer = Authority(self.directory, "signer")
        """Signs agents' certificates; the server's is from the same, as upstream's operator does it."""
        self.serving = self.signer.issue("grpc-server", hosts=("127.0.0.1", "localhost"))
        (self.port,) = free_ports(1)

    def start(self) -> None:
        ocm.install(self.admin, "hub-grpc", ocm.HUB_NAMESPACE)
        ocm.install_bootstrap(self.admin)
        self.server = self._server()
        self.controller = self._controller()
        for one in (self.controller, self.server):
            one.start()
            self.servers.append(one)
            self.administrator.servers.append(one)
        self.server.wait_until(lambda: listens(self.port))

    def stop(self) -> None:
        for one in reversed(self.servers):
            one.stop(timeout=5)

    def restart_server(self, *, kill: bool) -> None:
        self.server.stop(kill=kill, timeout=5)
        self.server.start()
        self.server.wait_until(lambda: listens(self.port))

    def bootstrap_config(self, address: str) -> Document:
        """What a newcomer is given: where the server is, whom to trust, and a token."""
        token = service_account_token(self.admin, ocm.BOOTSTRAP_NAMESPACE, BOOTSTRAP_ACCOUNT)
        return {"url": address, "caData": base64.b64encode(self.signer.pair.cert.read_bytes()).decode(), "token": token}

    def _kubeconfig(self, account: str) -> Path:
        path = self.directory / f"{account}.kubeconfig"
        return ocm.service_account_kubeconfig(self.cluster, self.admin, ocm.HUB_NAMESPACE, account, path)

    def _server(self) -> Server:
        config = self.directory / "server-config.yaml"
        files = {
            "tls_cert_file": str(self.serving.cert),
            "tls_key_file": str(self.serving.key),
            "client_ca_file": str(self.signer.pair.cert),
            "server_bind_port": str(self.port),
        }
        config.write_text(yaml.safe_dump(files))
        (health,) = free_ports(1)
        command = [
            peers.need("server"),
            "grpc",
            f"--kubeconfig={self._kubeconfig(SERVER_ACCOUNT)}",
            f"--namespace={ocm.HUB_NAMESPACE}",
            f"--listen=127.0.0.1:{health}",
            f"--server-config={config}",
        ]
        return Server("go grpc-server", command, self.directory / "grpc-server.log", {"POD_NAME": "grpc-server", "KUBECONFIG": ""})

    def _controller(self) -> Server:
        (health,) = free_ports(1)
        command = [
            peers.need("registration"),
            "controller",
            f"--kubeconfig={self._kubeconfig('registration-controller-sa')}",
            f"--namespace={ocm.HUB_NAMESPACE}",
            f"--listen=127.0.0.1:{health}",
            "--disable-leader-election",
            "--enabled-registration-drivers=csr,grpc",
            f"--grpc-ca-file={self.signer.pair.cert}",
            f"--grpc-key-file={self.signer.pair.key}",
            *self.flags,
        ]
        return Server("go controller", command, self.directory / "controller.log", {"POD_NAME": "controller", "KUBECONFIG": ""})


@dataclass
class GrpcAgents:
    """Upstream's `registration agent` and `work agent` of one cluster."""

    hub: GrpcHub
    spoke: Cluster
    directory: Path
    name: str
    servers: list[Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.admin: Client = self.spoke.client()
        self.link = Link(f"https://127.0.0.1:{self.hub.port}")
        self.secret = f"hub-kubeconfig-{self.name}"
        self.config = self.directory / "hub" / "config.yaml"
        """The hub's file, once the agent is registered."""

    def start_registration(self) -> None:
        ocm.install(self.admin, "agent", ocm.AGENT_NAMESPACE)
        bootstrap = self.directory / "bootstrap.yaml"
        bootstrap.write_text(yaml.safe_dump(self.hub.bootstrap_config(f"127.0.0.1:{self.link.port}")))
        # Outside of a pod the agent ends without a bootstrap kubeconfig, of which it uses nothing but the address.
        nowhere = self.directory / "nowhere.kubeconfig"
        write_kubeconfig(nowhere, "https://127.0.0.1:1", self.hub.signer.pair.cert, {"token": "none"})
        self._start(
            "registration",
            "klusterlet-registration-sa",
            f"--hub-kubeconfig-secret={self.secret}",
            f"--hub-kubeconfig-dir={self.config.parent}",
            "--registration-auth=grpc",
            f"--grpc-bootstrap-config={bootstrap}",
            f"--grpc-config={self.config}",
            f"--bootstrap-kubeconfig={nowhere}",
            "--feature-gates=AddonManagement=false",
        )

    def start_work(self) -> None:
        """After registration, with the certificate that it got."""
        self._start(
            "work",
            "klusterlet-work-sa",
            "--workload-source-driver=grpc",
            f"--workload-source-config={self.config}",
            f"--cloudevents-client-id={self.name}-work-agent",
            "--status-sync-interval=2s",
        )

    def stop(self) -> None:
        for one in reversed(self.servers):
            one.stop(timeout=5)

    def delivered(self, name: str) -> str | None:
        """What a ConfigMap of a work says on the managed cluster."""
        reply = self.admin.get(f"{ocm.MAPS}/{name}")
        return reply.json["data"]["greeting"] if reply.status == 200 else None

    def _start(self, program: str, account: str, *flags: str) -> None:
        own = ocm.service_account_kubeconfig(
            self.spoke, self.admin, ocm.AGENT_NAMESPACE, account, self.directory / f"{program}.kubeconfig"
        )
        (health,) = free_ports(1)
        command = [
            peers.need(program),
            "agent",
            f"--kubeconfig={own}",
            f"--spoke-kubeconfig={own}",
            f"--namespace={ocm.AGENT_NAMESPACE}",
            f"--listen=127.0.0.1:{health}",
            "--disable-leader-election",
            f"--spoke-cluster-name={self.name}",
            "--agent-id=agent1",
            *flags,
        ]
        environment = {
            "POD_NAME": program,
            "KUBECONFIG": "",
            "CERT_CALLBACK_REFRESH_DURATION": CERTIFICATE_POLL,
            # The informers of client-go 1.35 wait for a bookmark that the stores of sdk-go 1.2 never send; those of 1.3 do.
            "KUBE_FEATURE_WatchListClient": "false",
        }
        server = Server(f"go {program} agent of {self.name}", command, self.directory / f"{program}.log", environment)
        server.start()
        self.servers.append(server)
        self.hub.administrator.servers.append(server)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
