"""The two hubs that `bench registration` compares: `muster hub` and upstream's registration controller.

Each gets a kube-apiserver of its own, started anew with the same flags, with the definitions its side brings, a service account
of the same name and the same bootstrap identity for agents. Both accept clusters by themselves when the bootstrap identity
asks. Leader election and webhooks are off in both; everything else is each side's default, upstream's limit of 50 requests per
second included.
"""

from __future__ import annotations

import abc
import subprocess
from pathlib import Path

from tests.interop import ocm
from tests.support import peers
from tests.support.processes import Server, free_ports

from bench.audit import Request
from bench.measured import MeasuredProcess

BOOTSTRAP_USER = f"system:serviceaccount:{ocm.BOOTSTRAP_NAMESPACE}:agent-registration-bootstrap"
HUB_USER = f"system:serviceaccount:{ocm.HUB_NAMESPACE}:registration-controller-sa"
MUSTER = peers.ROOT / ".venv/bin/muster"
AGENT_PREFIX = "system:open-cluster-management:"


def party(request: Request) -> str:
    """Whose a request is; what the servers do by themselves and what the benchmark looks at is left out."""
    if request.user == HUB_USER:
        return "hub"
    return "agents" if request.user == BOOTSTRAP_USER or request.user.startswith(AGENT_PREFIX) else ""


class Hub(MeasuredProcess):
    """A real API server and one hub process on it."""

    def start(self) -> None:
        self.plane.start()
        self.admin = self.plane.client()
        self.install()
        kubeconfig = ocm.service_account_kubeconfig(
            self.plane.cluster, self.admin, ocm.HUB_NAMESPACE, "registration-controller-sa", self.directory / "hub.kubeconfig"
        )
        self.bootstrap = ocm.service_account_kubeconfig(
            self.plane.cluster,
            self.admin,
            ocm.BOOTSTRAP_NAMESPACE,
            "agent-registration-bootstrap",
            self.directory / "bootstrap.kubeconfig",
        )
        self._server = Server(self.name, self.command(kubeconfig), self.directory / "hub.log", self.environment())
        self._server.start()

    def environment(self) -> dict[str, str]:
        """What the hub's process finds around it. Asked when everything is installed."""
        return {"POD_NAME": "hub", "KUBECONFIG": ""}

    @abc.abstractmethod
    def command(self, kubeconfig: Path) -> list[str | Path]: ...


class Ours(Hub):
    name = "muster"
    drivers: tuple[str, ...] = ()
    """Flags that say which registration drivers there are."""

    def install(self) -> None:
        own: list[str | Path] = [MUSTER, "hub", "--install-only", "--no-webhook", f"--kubeconfig={self.plane.kubeconfig}"]
        subprocess.run([*own, *self.drivers], check=True, timeout=60, stdout=subprocess.DEVNULL)

    def command(self, kubeconfig: Path) -> list[str | Path]:
        return [
            MUSTER,
            "hub",
            f"--kubeconfig={kubeconfig}",
            "--no-install",
            "--no-webhook",
            "--health-port=0",
            "--disable-leader-election",
            "--feature-gates=ManagedClusterAutoApproval=true",
            f"--auto-approved-csr-users={BOOTSTRAP_USER}",
            *self.drivers,
        ]


class Upstream(Hub):
    name = "upstream"
    extra: tuple[str, ...] = ()

    def install(self) -> None:
        ocm.install(self.admin, "hub", ocm.HUB_NAMESPACE)
        ocm.install_bootstrap(self.admin)

    def command(self, kubeconfig: Path) -> list[str | Path]:
        (port,) = free_ports(1)
        return [
            peers.need("registration"),
            "controller",
            f"--kubeconfig={kubeconfig}",
            f"--namespace={ocm.HUB_NAMESPACE}",
            "--disable-leader-election",
            f"--listen=127.0.0.1:{port}",
            "--feature-gates=ManagedClusterAutoApproval=true",
            f"--auto-approved-csr-users={BOOTSTRAP_USER}",
            *self.extra,
        ]


class Unlimited(Upstream):
    """Upstream's hub as fast as it can: by default it holds itself to 50 requests per second."""

    name = "upstream without its rate limit"
    extra = ("--kube-api-qps=1000", "--kube-api-burst=2000")
