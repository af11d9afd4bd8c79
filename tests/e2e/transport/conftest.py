"""A hub that agents reach over gRPC alone, and managed clusters that do, as the processes people run.

The hub is `muster hub` with both drivers, a `muster grpc-server` with the rights that its installation gives it, and links that a
test may cut. Agents are told the link's address, a token and a CA, and nothing that leads to the hub's API server.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.administrator import HUB_NAMESPACE, TRUSTED, service_account_token
from tests.support.link import Link
from tests.support.pki import Authority
from tests.support.planes import ControlPlane, lent, write_kubeconfig
from tests.support.processes import Server, complaints, free_ports, tail
from tests.support.registration import MUSTER, Hub, Spoke, http_status

SERVER_ACCOUNT = "grpc-server-sa"
BOOTSTRAP = ("open-cluster-management", "agent-registration-bootstrap")
WORK_API = "/apis/work.open-cluster-management.io/v1"


class GrpcServer:
    """`muster grpc-server` as a process."""

    def __init__(self, site: Site, name: str) -> None:
        self.port, self.health_port = free_ports(2)
        config = site.directory / f"{name}.yaml"
        files = {
            "tls_cert_file": str(site.serving.cert),
            "tls_key_file": str(site.serving.key),
            "client_ca_file": str(site.signer.pair.cert),
            "server_bind_port": str(self.port),
        }
        config.write_text(yaml.safe_dump(files))
        command: list[str | Path] = [MUSTER, "grpc-server", f"--kubeconfig={site.server_kubeconfig}", f"--server-config={config}"]
        command += ["--bind-host=127.0.0.1", f"--health-port={self.health_port}"]
        self.process = Server(f"muster grpc-server {name}", command, site.directory / f"{name}.log")
        site.hub.servers.append(self.process)

    def start(self) -> None:
        self.process.start()
        self.process.wait_until(lambda: http_status(self.health_port, "/readyz") == 200, 60)

    def kill(self) -> None:
        self.process.stop(kill=True)

    def stop(self) -> None:
        self.process.stop(timeout=10)


@dataclass
class Site:
    """A hub with the gRPC driver, and what its servers need."""

    hub: Hub
    spoke: Spoke
    directory: Path
    signer: Authority
    agents: list[GrpcAgent] = field(default_factory=list)
    servers: list[GrpcServer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.serving = self.signer.issue("grpc-server", hosts=("127.0.0.1",), file="serving")
        self.server_kubeconfig = self.directory / "grpc-server.kubeconfig"

    def install(self) -> None:
        self.hub.install()
        command: list[str | Path] = [MUSTER, "grpc-server", "--kubeconfig", self.hub.cluster.kubeconfig, "--install-only"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        token = service_account_token(self.hub.admin, HUB_NAMESPACE, SERVER_ACCOUNT)
        write_kubeconfig(self.server_kubeconfig, self.hub.cluster.url, self.hub.cluster.ca, {"token": token})

    def server(self, name: str) -> GrpcServer:
        server = GrpcServer(self, name)
        self.servers.append(server)
        server.start()
        return server

    def agent(self, name: str, *servers: GrpcServer) -> GrpcAgent:
        agent = GrpcAgent(self, name, servers or tuple(self.servers[:1]))
        self.agents.append(agent)
        agent.start()
        return agent

    def joined(self, name: str, *servers: GrpcServer) -> GrpcAgent:
        agent = self.agent(name, *servers)
        self.hub.wait_available(name, timeout=60)
        return agent

    def stop_agents(self) -> None:
        stopped, self.agents = self.agents, []
        for agent in stopped:
            agent.stop()


class GrpcAgent:
    """`muster agent` and, once that is registered, `muster work-agent` of one managed cluster."""

    def __init__(self, site: Site, name: str, servers: tuple[GrpcServer, ...]) -> None:
        self.site = site
        self.name = name
        self.namespace = f"agent-{name}"
        self.directory = site.spoke.directory / name
        self.links = [Link(f"https://127.0.0.1:{server.port}") for server in servers]
        self.kubeconfig = site.spoke.prepare(self.namespace)
        self.processes: list[Server] = []
        self.introduce(self.bootstrap())

    def bootstrap(self) -> dict[str, Any]:
        first, *others = [f"127.0.0.1:{link.port}" for link in self.links]
        ca = base64.b64encode(self.site.signer.pair.cert.read_bytes()).decode()
        token = service_account_token(self.site.hub.admin, *BOOTSTRAP)
        return {"url": first, **({"urls": [first, *others]} if others else {}), "caData": ca, "token": token}

    def introduce(self, config: dict[str, Any]) -> None:
        place = f"/api/v1/namespaces/{self.namespace}/secrets"
        body = {"metadata": {"name": "bootstrap-hub-kubeconfig"}, "stringData": {"config.yaml": yaml.safe_dump(config)}}
        self.site.spoke.admin.post(place, body).expect(201)

    def start(self) -> None:
        own: list[str | Path] = [MUSTER, "agent", f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        own += [f"--cluster-name={self.name}", "--registration-auth=grpc", f"--hub-kubeconfig-dir={self.directory}"]
        self._start("agent", own)

    def start_work(self) -> None:
        admin = self.site.spoke.cluster.kubeconfig
        own: list[str | Path] = [MUSTER, "work-agent", f"--spoke-kubeconfig={admin}", f"--kubeconfig={admin}"]
        own += [f"--cluster-name={self.name}", "--workload-source-driver=grpc", f"--namespace={self.namespace}", "--install"]
        own += [f"--workload-source-config={self.directory / 'config.yaml'}", f"--cloudevents-client-id={self.name}-work-agent"]
        self._start("work-agent", own)

    def _start(self, kind: str, command: list[str | Path]) -> None:
        (health,) = free_ports(1)
        log = self.site.spoke.directory / f"{self.name}-{kind}.log"
        process = Server(f"muster {kind} {self.name}", [*command, f"--health-port={health}"], log)
        self.site.hub.servers.append(process)
        self.processes.append(process)
        process.start()

    @property
    def secret(self) -> dict[str, bytes]:
        return self.site.spoke.secret(self.namespace)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.stop(timeout=10)
            self.site.hub.servers.remove(process)
        for link in self.links:
            link.close()


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("transport"), "spoke")


@pytest.fixture(scope="session")
def whole_site(ground: ControlPlane) -> Iterator[Site]:
    directory = ground.directory / "grpc"
    directory.mkdir(parents=True, exist_ok=True)
    signer = Authority(directory, "signer")
    flags = (
        "--enabled-registration-drivers=csr,grpc",
        "--feature-gates=ManagedClusterAutoApproval=true",
        f"--auto-approved-csr-users={TRUSTED}",
        f"--auto-approved-grpc-users={TRUSTED}",
        f"--grpc-ca-file={signer.pair.cert}",
        f"--grpc-key-file={signer.pair.key}",
    )
    hub = Hub(ground.cluster, directory / "hub", flags)
    site = Site(hub, Spoke(ground.extra("spoke"), directory / "agents"), directory, signer)
    site.install()
    hub.start()
    site.server("first")
    yield site
    for server in site.servers:
        server.stop()
    hub.stop()
    assert complaints(hub.process.log) == []


@pytest.fixture
def site(whole_site: Site) -> Iterator[Site]:
    yield whole_site
    whole_site.stop_agents()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    site = getattr(item, "funcargs", {}).get("whole_site")
    if report.failed and isinstance(site, Site):
        running = [site.hub.process, *(one.process for one in site.servers), *(p for a in site.agents for p in a.processes)]
        for process in running:
            report.sections.append((process.name, tail(process.log, 15)))
