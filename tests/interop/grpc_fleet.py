"""A hub and managed clusters that meet over gRPC, with every end either upstream's program or ours.

`GrpcHub` is a cluster with a hub's controller and a gRPC server on it; `GrpcAgents` are the registration and the work agent of one
managed cluster, which reach that server by a link that a test can cut, and nothing else of the hub. Which programs they are is a
parameter of each, so a scenario is written once for all combinations.

Every program runs with the rights that its own side's installation gives it. Both sides call the gRPC server's account the same, so
ours has one of its own here: then it may do what our installation grants, and nothing that only upstream's needs.
"""

from __future__ import annotations

import abc
import base64
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from muster.transport.server.install import SERVER_RULES
from tests.interop import ocm
from tests.support import peers
from tests.support.administrator import Administrator, read_secret, service_account_token
from tests.support.client import Client
from tests.support.link import Link
from tests.support.pki import Authority, Pair
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import Server, free_ports
from tests.support.registration import HUB_SECRET, Hub, Spoke, http_status

BOOTSTRAP_ACCOUNT: Final = "agent-registration-bootstrap"
BOOTSTRAP_USER: Final = f"system:serviceaccount:{ocm.BOOTSTRAP_NAMESPACE}:{BOOTSTRAP_ACCOUNT}"
GRPC_SIGNER: Final = "open-cluster-management.io/grpc"
WORK_API: Final = "/apis/work.open-cluster-management.io/v1"
OUR_ACCOUNT: Final = "muster-grpc-server"
AGENT: Final = "agent1"
"""The name of either side's agents: with the cluster's it makes the identity that a certificate is for."""
CERTIFICATE_POLL: Final = "30s"
"""How often upstream's agents look whether their certificate has changed; five minutes unless told."""
EVICTION: Final = "--appliedmanifestwork-eviction-grace-period=20s"
"""How long either work agent leaves alone what it finds of works that its hub does not have."""
OUR_PROGRAM: Final = peers.ROOT / ".venv/bin/muster"
Document = dict[str, Any]


@dataclass(frozen=True)
class ServerProgram:
    """Whose gRPC server runs, as which account of the hub's namespace."""

    name: str
    account: str
    command: Callable[[Path, Path, int], list[str | Path]]
    """Given its kubeconfig, its configuration file and a port for its health."""


def _go(kubeconfig: Path, config: Path, health: int) -> list[str | Path]:
    return [
        peers.need("server"),
        "grpc",
        f"--kubeconfig={kubeconfig}",
        f"--namespace={ocm.HUB_NAMESPACE}",
        f"--listen=127.0.0.1:{health}",
        f"--server-config={config}",
        # From 1.3 on there is no election to be disabled.
        *([] if ocm.version() >= (1, 3) else ["--disable-leader-election"]),
    ]


def _muster(kubeconfig: Path, config: Path, health: int) -> list[str | Path]:
    return [
        OUR_PROGRAM,
        "grpc-server",
        f"--kubeconfig={kubeconfig}",
        f"--listen=127.0.0.1:{health}",
        f"--server-config={config}",
    ]


GO: Final = ServerProgram("go", "grpc-server-sa", _go)
MUSTER: Final = ServerProgram("muster", OUR_ACCOUNT, _muster)


def install_our_account(admin: Client) -> None:
    subject = {"kind": "ServiceAccount", "namespace": ocm.HUB_NAMESPACE, "name": OUR_ACCOUNT}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": OUR_ACCOUNT}
    metadata = {"metadata": {"name": OUR_ACCOUNT}}
    ocm.create(admin, f"/api/v1/namespaces/{ocm.HUB_NAMESPACE}/serviceaccounts", metadata)
    ocm.create(admin, f"{ocm.RBAC}/clusterroles", {**metadata, "rules": list(SERVER_RULES)})
    ocm.create(admin, f"{ocm.RBAC}/clusterrolebindings", {**metadata, "subjects": [subject], "roleRef": reference})


def write_server_config(path: Path, serving: Pair, client_ca: Path, port: int) -> Path:
    """The file that both servers read."""
    files = {
        "tls_cert_file": str(serving.cert),
        "tls_key_file": str(serving.key),
        "client_ca_file": str(client_ca),
        "server_bind_port": str(port),
    }
    path.write_text(yaml.safe_dump(files))
    return path


@dataclass
class GrpcHub:
    """One of the gRPC servers, and as controller upstream's `registration controller` or `muster hub`."""

    cluster: Cluster
    directory: Path
    program: ServerProgram = GO
    ours: bool = False
    """Whether the controller is ours."""
    lifetime: str = ""
    """Of the certificates that it signs; empty: as long as the controller gives by itself."""
    servers: list[Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.admin = self.cluster.client()
        self.administrator = Administrator(self.cluster)
        self.signer = Authority(self.directory, "signer")
        """Signs agents' certificates; the server's is from the same, as upstream's operator does it."""
        self.serving = self.signer.issue("grpc-server", hosts=("127.0.0.1", "localhost"))
        self.port, self._health = free_ports(2)

    def start(self) -> None:
        flags = ["--enabled-registration-drivers=csr,grpc"]
        flags += [f"--grpc-ca-file={self.signer.pair.cert}", f"--grpc-key-file={self.signer.pair.key}"]
        if self.lifetime:
            flags.append(f"--grpc-signing-duration={self.lifetime}")
        if self.ours:
            account = f"--grpc-server-account=system:serviceaccount:{ocm.HUB_NAMESPACE}:{self.program.account}"
            hub = Hub(self.cluster, self.directory / "controller", [*flags, account])
            hub.install()
            controller = hub.process
        else:
            ocm.install(self.admin, "hub-grpc", ocm.HUB_NAMESPACE)
            controller = self._upstreams_controller(flags)
        ocm.install_bootstrap(self.admin)
        if self.program is MUSTER:
            install_our_account(self.admin)
        elif self.ours:
            ocm.install(self.admin, "hub-grpc", ocm.HUB_NAMESPACE, only="grpc-server")
        self.server = self._server()
        for one in (controller, self.server):
            one.start()
            self.servers.append(one)
            self.administrator.servers.append(one)
        self.server.wait_until(self._serves)

    def _serves(self) -> bool:
        """Ours also says when it knows everything; upstream's does not know."""
        return listens(self.port) and (self.program is GO or http_status(self._health, "/readyz") == 200)

    def stop(self) -> None:
        for one in reversed(self.servers):
            one.stop(timeout=5)

    def restart_server(self, *, kill: bool) -> None:
        self.server.stop(kill=kill, timeout=5)
        self.server.start()
        self.server.wait_until(self._serves)

    @property
    def approves_renewals(self) -> bool:
        """Upstream's hub of 1.2 asks for the rights of the server's account before it approves a renewal, and so approves none."""
        return self.ours or ocm.version() >= (1, 3)

    def put_work(self, cluster: str, name: str, value: str) -> None:
        """A work that delivers a ConfigMap of its own name, or the next version of it."""
        body = named_work(name, value)
        if self.admin.post(works_of(cluster), body).status == 409:
            self.admin.patch(f"{works_of(cluster)}/{name}", {"spec": body["spec"]}).expect(200)

    def reported(self, cluster: str, name: str) -> set[str]:
        """The conditions that hold of a work's present generation, by what its agent has told."""
        work = self.admin.get(f"{works_of(cluster)}/{name}").expect(200)
        generation = work["metadata"]["generation"]
        said = work.get("status", {}).get("conditions", ())
        return {one["type"] for one in said if one["status"] == "True" and one.get("observedGeneration", generation) == generation}

    def wait_reported(self, cluster: str, name: str, timeout: float = 90) -> None:
        self.administrator.wait(
            lambda: self.reported(cluster, name) >= {"Applied", "Available"}, f"the status of {name}, as it is now", timeout
        )

    def wait_gone(self, cluster: str, name: str, timeout: float = 90) -> None:
        place = f"{works_of(cluster)}/{name}"
        self.administrator.wait(lambda: self.admin.get(place).status == 404, f"the work {name} to be gone", timeout)

    def delete_work(self, cluster: str, name: str, *, force: bool = False) -> None:
        """`force`: nobody is waited for."""
        place = f"{works_of(cluster)}/{name}"
        if force:
            self.admin.patch(place, {"metadata": {"finalizers": None}}).expect(200)
        self.admin.delete(place).expect(200)

    def bootstrap_config(self, address: str) -> Document:
        """What a newcomer is given: where the server is, whom to trust, and a token."""
        token = service_account_token(self.admin, ocm.BOOTSTRAP_NAMESPACE, BOOTSTRAP_ACCOUNT)
        return {"url": address, "caData": base64.b64encode(self.signer.pair.cert.read_bytes()).decode(), "token": token}

    def _kubeconfig(self, account: str) -> Path:
        path = self.directory / f"{account}.kubeconfig"
        return ocm.service_account_kubeconfig(self.cluster, self.admin, ocm.HUB_NAMESPACE, account, path)

    def _server(self) -> Server:
        config = write_server_config(self.directory / "server-config.yaml", self.serving, self.signer.pair.cert, self.port)
        command = self.program.command(self._kubeconfig(self.program.account), config, self._health)
        environment = {"POD_NAME": "grpc-server", "KUBECONFIG": ""}
        return Server(f"{self.program.name} grpc-server", command, self.directory / "grpc-server.log", environment)

    def _upstreams_controller(self, flags: Sequence[str]) -> Server:
        (health,) = free_ports(1)
        command: list[str | Path] = [
            peers.need("registration"),
            "controller",
            f"--kubeconfig={self._kubeconfig('registration-controller-sa')}",
            f"--namespace={ocm.HUB_NAMESPACE}",
            f"--listen=127.0.0.1:{health}",
            "--disable-leader-election",
            *flags,
        ]
        return Server("go controller", command, self.directory / "controller.log", {"POD_NAME": "controller", "KUBECONFIG": ""})


@dataclass
class GrpcAgents(abc.ABC):
    """The registration agent and the work agent of one cluster."""

    hub: GrpcHub
    spoke: Cluster
    directory: Path
    name: str
    servers: list[Server] = field(default_factory=list)
    way: InitVar[Link | None] = None
    """To the hub's server, where there is one already."""

    def __post_init__(self, way: Link | None) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.admin: Client = self.spoke.client()
        self.link = way or Link(f"https://127.0.0.1:{self.hub.port}")
        self.config = self.directory / "hub" / "config.yaml"
        """The hub's file, once the agent is registered."""

    @abc.abstractmethod
    def start_registration(self) -> None: ...

    @abc.abstractmethod
    def start_work(self) -> None:
        """After registration, with the certificate that it got."""

    def join(self, lease: int = 5) -> None:
        """The registration agent introduces its cluster; the administrator accepts it and approves of the agent."""
        administrator = self.hub.administrator
        self.start_registration()
        administrator.wait(lambda: administrator.requests(self.name), "the agent's certificate request", 60)
        administrator.accept(self.name, lease=lease)
        administrator.approve(self.name)
        administrator.wait_available(self.name, timeout=120)

    def start(self) -> None:
        """Both, where the cluster has joined before."""
        self.start_registration()
        self.start_work()

    def stop(self, *, kill: bool = False) -> None:
        stopped, self.servers = self.servers, []
        for one in reversed(stopped):
            one.stop(kill=kill, timeout=5)

    def exchanged_for(self, program: Callable[..., GrpcAgents]) -> GrpcAgents:
        """Agents of that program, not started yet, in the place of these, which end: on the same cluster, with what is kept there,
        and with the same way to the hub."""
        self.stop()
        return program(self.hub, self.spoke, self.directory, self.name, way=self.link)

    def credential(self) -> dict[str, bytes]:
        """What the registration agent got, and keeps in its Secret."""
        return read_secret(self.admin, ocm.AGENT_NAMESPACE, HUB_SECRET)

    def delivered(self, name: str) -> str | None:
        """What a ConfigMap of a work says on the managed cluster."""
        reply = self.admin.get(f"{ocm.MAPS}/{name}")
        return reply.json["data"]["greeting"] if reply.status == 200 else None

    def wait_delivered(self, name: str, value: str, timeout: float = 90) -> None:
        says = f"{name} to say {value!r} on the managed cluster"
        self.hub.administrator.wait(lambda: self.delivered(name) == value, says, timeout)

    def _bootstrap(self) -> Path:
        path = self.directory / "bootstrap.yaml"
        if not path.exists():
            path.write_text(yaml.safe_dump(self.hub.bootstrap_config(f"127.0.0.1:{self.link.port}")))
        return path

    def _run(self, program: str, command: list[str | Path], environment: Mapping[str, str]) -> None:
        server = Server(f"{program} of {self.name}", command, self.directory / f"{program}.log", environment)
        server.start()
        self.servers.append(server)
        self.hub.administrator.servers.append(server)


class GoAgents(GrpcAgents):
    """Upstream's `registration agent` and `work agent`."""

    def start_registration(self) -> None:
        ocm.install(self.admin, "agent", ocm.AGENT_NAMESPACE)
        # Outside of a pod the agent ends without a bootstrap kubeconfig, of which it uses nothing but the address.
        nowhere = self.directory / "nowhere.kubeconfig"
        write_kubeconfig(nowhere, "https://127.0.0.1:1", self.hub.signer.pair.cert, {"token": "none"})
        self._start(
            "registration",
            "klusterlet-registration-sa",
            f"--hub-kubeconfig-secret={HUB_SECRET}",
            f"--hub-kubeconfig-dir={self.config.parent}",
            "--registration-auth=grpc",
            f"--grpc-bootstrap-config={self._bootstrap()}",
            f"--grpc-config={self.config}",
            f"--bootstrap-kubeconfig={nowhere}",
            "--feature-gates=AddonManagement=false",
        )

    def start_work(self) -> None:
        self._start(
            "work",
            "klusterlet-work-sa",
            "--workload-source-driver=grpc",
            f"--workload-source-config={self.config}",
            f"--cloudevents-client-id={self.name}-work-agent",
            "--status-sync-interval=2s",
            EVICTION,
        )

    def _start(self, program: str, account: str, *flags: str) -> None:
        own = ocm.service_account_kubeconfig(
            self.spoke, self.admin, ocm.AGENT_NAMESPACE, account, self.directory / f"{program}.kubeconfig"
        )
        (health,) = free_ports(1)
        command: list[str | Path] = [
            peers.need(program),
            "agent",
            f"--kubeconfig={own}",
            f"--spoke-kubeconfig={own}",
            f"--namespace={ocm.AGENT_NAMESPACE}",
            f"--listen=127.0.0.1:{health}",
            "--disable-leader-election",
            f"--spoke-cluster-name={self.name}",
            f"--agent-id={AGENT}",
            *flags,
        ]
        environment = {
            "POD_NAME": program,
            "KUBECONFIG": "",
            "CERT_CALLBACK_REFRESH_DURATION": CERTIFICATE_POLL,
            # The informers of client-go 1.35 wait for a bookmark that the stores of sdk-go 1.2 never send; those of 1.3 do.
            "KUBE_FEATURE_WatchListClient": "false",
        }
        self._run(f"go {program} agent", command, environment)


class MusterAgents(GrpcAgents):
    """`muster agent` and `muster work-agent`."""

    def start_registration(self) -> None:
        own = Spoke(self.spoke, self.directory / "spoke").prepare(ocm.AGENT_NAMESPACE)
        command: list[str | Path] = [
            OUR_PROGRAM,
            "agent",
            f"--kubeconfig={own}",
            f"--namespace={ocm.AGENT_NAMESPACE}",
            f"--cluster-name={self.name}",
            f"--agent-id={AGENT}",
            f"--hub-kubeconfig-dir={self.config.parent}",
            "--registration-auth=grpc",
            f"--grpc-bootstrap-config={self._bootstrap()}",
            f"--grpc-config={self.config}",
            "--health-port=0",
        ]
        self._run("muster agent", command, {"KUBECONFIG": ""})

    def start_work(self) -> None:
        install: list[str | Path] = [OUR_PROGRAM, "work-agent", "--install-only", f"--kubeconfig={self.spoke.kubeconfig}"]
        subprocess.run(install, check=True, timeout=60, stdout=subprocess.DEVNULL)
        own = ocm.service_account_kubeconfig(
            self.spoke, self.admin, ocm.AGENT_NAMESPACE, "klusterlet-work-sa", self.directory / "work.kubeconfig"
        )
        command: list[str | Path] = [
            OUR_PROGRAM,
            "work-agent",
            f"--kubeconfig={own}",
            f"--namespace={ocm.AGENT_NAMESPACE}",
            f"--spoke-cluster-name={self.name}",
            f"--agent-id={AGENT}",
            "--disable-leader-election",
            "--workload-source-driver=grpc",
            f"--workload-source-config={self.config}",
            EVICTION,
            "--health-port=0",
        ]
        self._run("muster work-agent", command, {"KUBECONFIG": ""})


def works_of(cluster: str) -> str:
    return f"{WORK_API}/namespaces/{cluster}/manifestworks"


def named_work(name: str, value: str) -> Document:
    return {**ocm.work(value, name), "metadata": {"name": name}}


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
