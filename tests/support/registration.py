"""Hubs and agents of a test as the processes people run: `muster hub`, `muster agent`, each with its own service account's rights.

`Hub` is a cluster with OCM's definitions on which a hub process runs; it is its own `Administrator`. `Spoke` is a managed cluster;
agents share it, each in a namespace of its own, and `Agent` is one such process.
"""

from __future__ import annotations

import asyncio
import http.client
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.registration.agent.install import install as install_agent
from muster.registration.agent.options import AgentOptions
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from tests.support import peers
from tests.support.administrator import HUB_NAMESPACE, Administrator, read_secret, service_account_token
from tests.support.client import Client
from tests.support.link import Link
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import Server, free_ports

MUSTER = peers.ROOT / ".venv/bin/muster"
BOOTSTRAP_SECRET, HUB_SECRET = "bootstrap-hub-kubeconfig", "hub-kubeconfig-secret"
PENDING_SECRET = "hub-kubeconfig-secret-pending"


class Hub(Administrator):
    """`muster hub` as a process, with the token of its own service account, and with webhooks unless others' are to stay; its API
    server by way of `link`."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        link: Link | None = None,
        *,
        webhooks: bool = True,
    ) -> None:
        super().__init__(cluster)
        self.url = link.url(cluster.url) if link else cluster.url
        directory.mkdir(parents=True, exist_ok=True)
        self.webhook_port, self.health_port = free_ports(2)
        self.kubeconfig = directory / "hub.kubeconfig"
        served = [f"--webhook-port={self.webhook_port}", f"--webhook-url=https://127.0.0.1:{self.webhook_port}"]
        self._webhooks = served if webhooks else ["--no-webhook"]
        own: list[str | Path] = [
            MUSTER,
            "hub",
            "--kubeconfig",
            self.kubeconfig,
            "--no-install",
            "--no-leader-elect",
            *self._webhooks,
        ]
        command = [*own, f"--health-port={self.health_port}", *flags]
        self.process = Server(f"muster hub on {cluster.name}", command, directory / "hub.log", environment)
        self.servers.append(self.process)

    def install(self, *flags: str) -> None:
        """As administrator: definitions, accounts, roles, webhooks; and a kubeconfig of the hub's own account. `flags` are those
        that say of which drivers it needs rights."""
        own: list[str | Path] = [MUSTER, "hub", "--kubeconfig", self.cluster.kubeconfig, "--install-only", *self._webhooks]
        command = [*own, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        token = service_account_token(self.admin, HUB_NAMESPACE, "registration-controller-sa")
        write_kubeconfig(self.kubeconfig, self.url, self.cluster.ca, {"token": token})

    def start(self) -> None:
        self.process.start()
        self.process.wait_until(lambda: http_status(self.health_port, "/readyz") == 200, 30)

    def restart(self, *, kill: bool = True) -> None:
        self.process.stop(kill=kill)
        self.start()

    def stop(self, *, kill: bool = False) -> None:
        self.process.stop(kill=kill, timeout=10)


class Spoke:
    """A managed cluster that many agents share."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.cluster = cluster
        self.directory = directory
        self.admin = cluster.client()

    def prepare(self, namespace: str) -> Path:
        """What `muster agent --install` does, and a kubeconfig of the agent's own account."""

        async def run() -> None:
            client = HttpClient(load_kubeconfig(self.cluster.kubeconfig))
            try:
                await install_agent(client, AgentOptions(namespace=namespace))
            finally:
                await client.close()

        asyncio.run(run())
        token = service_account_token(self.admin, namespace, "klusterlet-registration-sa")
        path = self.directory / f"{namespace}.kubeconfig"
        write_kubeconfig(path, self.cluster.url, self.cluster.ca, {"token": token})
        return path

    def introduce(self, namespace: str, kubeconfig: str, secret: str = BOOTSTRAP_SECRET) -> None:
        """Puts a bootstrap kubeconfig where agents look for it, or another in its place."""
        place = f"/api/v1/namespaces/{namespace}/secrets"
        body = {"metadata": {"name": secret}, "stringData": {"kubeconfig": kubeconfig}}
        if self.admin.post(place, body).status == 409:
            self.admin.patch(f"{place}/{secret}", {"stringData": {"kubeconfig": kubeconfig}}).expect(200)

    def secret(self, namespace: str) -> dict[str, bytes]:
        """The credential that the agent of that namespace has."""
        return read_secret(self.admin, namespace, HUB_SECRET)

    def pending(self, namespace: str) -> dict[str, bytes]:
        """What the agent of that namespace has begun, whatever hub it is for, and its names."""
        kept = read_secret(self.admin, namespace, PENDING_SECRET)
        return {key.partition(".")[2] or key: value for key, value in kept.items()}


class Agent:
    """`muster agent` as a process for one cluster, in a namespace named like the cluster."""

    def __init__(
        self,
        spoke: Spoke,
        hub: Administrator,
        name: str,
        bootstrap: str,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.spoke = spoke
        self.hub = hub
        self.name = name
        self.namespace = f"agent-{name}"
        self.files = spoke.directory / name
        self.kubeconfig = spoke.prepare(self.namespace)
        self.introduce(bootstrap)
        (self.health_port,) = free_ports(1)
        own: list[str | Path] = [
            MUSTER,
            "agent",
            "--kubeconfig",
            self.kubeconfig,
            "--namespace",
            self.namespace,
            "--cluster-name",
            name,
        ]
        command = [*own, "--hub-kubeconfig-dir", self.files, f"--health-port={self.health_port}", *flags]
        self.process = Server(f"muster agent {name}", command, spoke.directory / f"{name}.log", environment)
        hub.servers.append(self.process)

    def introduce(self, bootstrap: str) -> None:
        self.spoke.introduce(self.namespace, bootstrap)

    @property
    def secret(self) -> dict[str, bytes]:
        return self.spoke.secret(self.namespace)

    @property
    def pending(self) -> dict[str, bytes]:
        return self.spoke.pending(self.namespace)

    def start(self) -> Agent:
        self.process.start()
        return self

    def kill(self) -> None:
        self.process.stop(kill=True)

    def stop(self) -> None:
        self.process.stop(kill=False, timeout=10)
        if self.process in self.hub.servers:
            self.hub.servers.remove(self.process)

    def client(self) -> Client:
        """A client of the hub with the agent's own identity, as a person on the managed cluster could make one."""
        for key in ("tls.crt", "tls.key"):
            file = self.spoke.directory / f"{self.name}-{key}"
            file.write_bytes(self.secret[key])
        pair = (self.spoke.directory / f"{self.name}-tls.crt", self.spoke.directory / f"{self.name}-tls.key")
        return Client(self.hub.cluster.url, ca=self.hub.cluster.ca, certificate=pair)


def http_status(port: int, path: str) -> int:
    """Of a plain HTTP server on loopback; 0 when nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def http_text(port: int, path: str) -> str:
    """What a plain HTTP server on loopback answers; empty when nobody does."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        connection.close()
