"""A hub that agents reach over gRPC alone, and managed clusters that do, as the processes people run.

The hub is `muster hub` with both drivers, a `muster grpc-server` with the rights that its installation gives it, and links that a
test may cut. Agents are told the link's address, a token and a CA, and nothing that leads to the hub's API server.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
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
from tests.support.sites import KUBE

SERVER_ACCOUNT = "grpc-server-sa"
BOOTSTRAP = ("open-cluster-management", "agent-registration-bootstrap")
WORK_API = "/apis/work.open-cluster-management.io/v1"


CLUSTER = "cluster"
PLANES = os.environ.get("MUSTER_GRPC_PLANES", f"{CLUSTER},sqlite,postgres" if KUBE else CLUSTER).split(",")
"""What hubs stand on: `cluster`, `sqlite`, `postgres`. Databases are beside the real kube-apiserver, where time is not short,
unless the variable says otherwise."""
takes_long = pytest.mark.skipif(PLANES == [CLUSTER], reason="runs beside the real kube-apiserver, or as MUSTER_GRPC_PLANES says")


def hub_flags(signer: Authority) -> tuple[str, ...]:
    return (
        "--enabled-registration-drivers=csr,grpc",
        "--feature-gates=ManagedClusterAutoApproval=true",
        f"--auto-approved-csr-users={TRUSTED}",
        f"--auto-approved-grpc-users={TRUSTED}",
        f"--grpc-ca-file={signer.pair.cert}",
        f"--grpc-key-file={signer.pair.key}",
    )


class GrpcServer:
    """`muster grpc-server` as a process. `config` is what its file has beyond what every one of them has; with a link, that is its
    way to the hub's API server."""

    def __init__(self, site: Site, name: str, config: Mapping[str, Any] | None = None, link: Link | None = None) -> None:
        self.port, self.health_port = free_ports(2)
        file = site.directory / f"{name}.yaml"
        settings = {
            "tls_cert_file": str(site.serving.cert),
            "tls_key_file": str(site.serving.key),
            "client_ca_file": str(site.signer.pair.cert),
            "server_bind_port": str(self.port),
            **(config or {}),
        }
        file.write_text(yaml.safe_dump(settings))
        kubeconfig = site.server_kubeconfig if link is None else site.kubeconfig_through(link, name)
        command: list[str | Path] = [MUSTER, "grpc-server", f"--kubeconfig={kubeconfig}", f"--server-config={file}"]
        command += ["--bind-host=127.0.0.1", f"--health-port={self.health_port}"]
        self.process = Server(f"muster grpc-server {name}", command, site.directory / f"{name}.log")
        site.hub.servers.append(self.process)

    def start(self) -> None:
        self.process.start()
        self.process.wait_until(lambda: self.ready, 60)

    @property
    def ready(self) -> bool:
        return http_status(self.health_port, "/readyz") == 200

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def series(self) -> list[str]:
        """All metrics, a line each."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/metrics", timeout=30) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        return [line for line in lines if not line.startswith("#")]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the series of a metric that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        named = [line for line in self.series() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in named if all(one in line for one in wanted))

    def kill(self) -> None:
        self.process.stop(kill=True)

    def freeze(self) -> None:
        """It keeps its connections and does nothing, until it is thawed."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

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

    has_several_servers = True
    """Whether servers can be added to the first."""

    def __post_init__(self) -> None:
        self.serving = self.signer.issue("grpc-server", hosts=("127.0.0.1",), file="serving")
        self.server_kubeconfig = self.directory / "grpc-server.kubeconfig"

    def install(self) -> None:
        self.hub.install()
        self.install_server()

    def install_server(self) -> None:
        command: list[str | Path] = [MUSTER, "grpc-server", "--kubeconfig", self.hub.cluster.kubeconfig, "--install-only"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        token = service_account_token(self.hub.admin, HUB_NAMESPACE, SERVER_ACCOUNT)
        self._server_user = {"token": token}
        write_kubeconfig(self.server_kubeconfig, self.hub.cluster.url, self.hub.cluster.ca, self._server_user)

    def kubeconfig_through(self, link: Link, name: str) -> Path:
        """Of the gRPC server's account, by way of a link."""
        path = self.directory / f"{name}.kubeconfig"
        write_kubeconfig(path, link.url(self.hub.cluster.url), self.hub.cluster.ca, self._server_user)
        return path

    def server(self, name: str, config: Mapping[str, Any] | None = None, link: Link | None = None) -> GrpcServer:
        server = GrpcServer(self, name, config, link)
        self.servers.append(server)
        server.start()
        return server

    def end(self, server: GrpcServer) -> None:
        server.stop()
        self.servers.remove(server)
        self.hub.servers.remove(server.process)

    def bootstrap(self, *addresses: str, **settings: Any) -> dict[str, Any]:
        """What introduces a cluster at one of these addresses."""
        ca = base64.b64encode(self.signer.pair.cert.read_bytes()).decode()
        token = service_account_token(self.hub.admin, *BOOTSTRAP)
        urls = {"urls": list(addresses)} if len(addresses) > 1 else {}
        return {"url": addresses[0], **urls, "caData": ca, "token": token, **settings}

    def agent(self, name: str, *servers: GrpcServer, **settings: Any) -> GrpcAgent:
        """`settings` are entries of the configuration that it is introduced with."""
        agent = GrpcAgent(self, name, servers or tuple(self.servers[:1]), settings)
        self.agents.append(agent)
        agent.start()
        return agent

    def joined(self, name: str, *servers: GrpcServer, **settings: Any) -> GrpcAgent:
        agent = self.agent(name, *servers, **settings)
        self.hub.wait_available(name, timeout=60)
        return agent

    def stop_agents(self) -> None:
        stopped, self.agents = self.agents, []
        for agent in stopped:
            agent.stop()


class GrpcAgent:
    """`muster agent` and, once that is registered, `muster work-agent` of one managed cluster."""

    def __init__(
        self,
        site: Site,
        name: str,
        servers: Sequence[GrpcServer],
        settings: Mapping[str, Any] | None = None,
        *,
        within: Sequence[str] = (),
    ) -> None:
        """`within` is a command that runs its processes somewhere else, where the servers are at their own ports."""
        self.site = site
        self._within = within
        self.name = name
        self.namespace = f"agent-{name}"
        self.directory = site.spoke.directory / name
        self.links = [] if within else [Link(server.url) for server in servers]
        self.kubeconfig = site.spoke.prepare(self.namespace)
        self.processes: list[Server] = []
        self.introduce(site.bootstrap(*(f"127.0.0.1:{way.port}" for way in self.links or servers), **(settings or {})))

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

    @property
    def work_agent(self) -> Server:
        return self.processes[-1]

    def _start(self, kind: str, command: list[str | Path]) -> None:
        (health,) = free_ports(1)
        log = self.site.spoke.directory / f"{self.name}-{kind}.log"
        process = Server(f"muster {kind} {self.name}", [*self._within, *command, f"--health-port={health}"], log)
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


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("transport"), "spoke", audit_log=True)


@pytest.fixture(scope="package")
def plane_kind(request: pytest.FixtureRequest) -> str:
    """What the hub stands on."""
    return str(getattr(request, "param", CLUSTER))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Modules that say `ON_SQL` are about what persistence can change."""
    if getattr(metafunc.module, "ON_SQL", False) and "site" in metafunc.fixturenames:
        metafunc.parametrize("plane_kind", PLANES, indirect=True, scope="package")


@pytest.fixture(scope="package")
def whole_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, plane_kind: str) -> Iterator[Site]:
    if plane_kind != CLUSTER:
        from tests.e2e.transport.sql_site import sql_site

        yield from sql_site(tmp_path_factory.mktemp(plane_kind), plane_kind)
        return
    ground: ControlPlane = request.getfixturevalue("ground")
    directory = ground.directory / "grpc"
    directory.mkdir(parents=True, exist_ok=True)
    signer = Authority(directory, "signer")
    hub = Hub(ground.cluster, directory / "hub", hub_flags(signer))
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
