"""Upstream's konnectivity server and agent (`peers/konnectivity`) as cluster-proxy runs them: by gRPC, with certificates on all
sides, and the agent chosen by the host that is dialled, which is the cluster's name.

An agent dials `<cluster>:443` wherever its resolver says that is; in a real cluster a Service of that name leads to the API server.
Here the agent is in a network of its own, in which port 443 of its loopback address leads to the cluster's API server. So the
cluster's name has to be `localhost`; no file of the machine is touched, and the port is not the machine's.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.support import peers
from tests.support.network_namespace import NetworkNamespace
from tests.support.pki import Authority, Pair
from tests.support.processes import Server, free_ports
from tests.support.registration import http_status

CLUSTER = "localhost"


def programs() -> tuple[Path, Path]:
    """Server and agent; perhaps not built."""
    command = ["make", "-s", "-C", str(peers.ROOT / "peers/konnectivity"), "print-bin"]
    server, agent = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Path(server), Path(agent)


def built() -> bool:
    return all(program.exists() for program in programs())


class ClusterProxyPeers:
    """A context manager. Server and agent may be stopped and started."""

    def __init__(self, directory: Path, api_server_port: int) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self.port, self._agent_port, admin, health, unused = free_ports(5)
        self._agent_health = health
        self._servers = Authority(directory, "proxy-server-ca")
        self._clients = Authority(directory, "proxy-client-ca")
        entrypoint = self._servers.issue("proxy-server", hosts=("127.0.0.1", "localhost"))
        files = {
            "server-cert": entrypoint.cert,
            "server-key": entrypoint.key,
            "server-ca-cert": self._clients.pair.cert,
            "cluster-cert": entrypoint.cert,
            "cluster-key": entrypoint.key,
            "cluster-ca-cert": self._clients.pair.cert,
        }
        ports = {"server-port": self.port, "agent-port": self._agent_port, "admin-port": admin, "health-port": health}
        bound = [f"--{name}-bind-address=127.0.0.1" for name in ("server", "agent", "admin", "health")]
        flags = [f"--{name}={value}" for name, value in (files | ports).items()]
        program, agent = programs()
        chosen = ["--mode=grpc", "--proxy-strategies=destHost", "--server-id=one"]
        self.server = Server("proxy-server", [program, *flags, *bound, *chosen], directory / "server.log")
        self._health = health
        self._network = NetworkNamespace(directory, let_out=self._agent_port, let_in=unused, renumbered={443: api_server_port})
        self._agent_command: list[str | Path] = [agent, *self._agent_flags()]
        self.agent: Server
        self._stack = ExitStack()

    def _agent_flags(self) -> list[str]:
        own = self._clients.issue("proxy-agent")
        flags = {
            "ca-cert": self._servers.pair.cert,
            "agent-cert": own.cert,
            "agent-key": own.key,
            "proxy-server-host": "127.0.0.1",
            "proxy-server-port": self._agent_port,
            "agent-identifiers": f"host={CLUSTER}",
            "sync-interval": "500ms",
            "sync-interval-cap": "1s",
        }
        return [f"--{name}={value}" for name, value in flags.items()]

    def client(self, name: str = "proxy-client") -> Pair:
        """A certificate for a client of the entrypoint."""
        return self._clients.issue(name)

    @property
    def ca(self) -> Path:
        return self._servers.pair.cert

    def __enter__(self) -> ClusterProxyPeers:
        self.start_server()
        network = self._stack.enter_context(self._network)
        self.agent = Server("proxy-agent", [*network.within, *self._agent_command], self._directory / "agent.log")
        self.agent.start()
        return self

    def start_server(self) -> None:
        self.server.start()
        self.server.wait_until(lambda: http_status(self._health, "/healthz") == 200, 30)

    def __exit__(self, *_: object) -> None:
        for one in (self.agent, self.server):
            one.stop(kill=True)
        self._stack.close()
