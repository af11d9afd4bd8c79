"""The two placement controllers that `bench placement` compares: `muster placement` and upstream's `placement controller`.

Each gets a kube-apiserver of its own, started anew with the same flags and definitions, and runs as the same account.
Leader election is off in both; everything else is each side's default, upstream's limit of 50 requests per second
included, unless a case lifts it.
"""

from __future__ import annotations

import abc
import subprocess
from pathlib import Path

from tests.interop import ocm
from tests.support import peers
from tests.support.processes import Server, free_ports

from bench.audit import Request
from bench.hubs import MUSTER
from bench.measured import MeasuredProcess

ACCOUNT = "placement-controller-sa"
USER = f"system:serviceaccount:{ocm.HUB_NAMESPACE}:{ACCOUNT}"
_WRITES = ("create", "update", "patch", "delete")


def party(request: Request) -> str:
    """Whose a request is, and whether it writes; Events are told apart."""
    if request.user != USER:
        return ""
    if request.resource.startswith("events"):
        return "events"
    return "writes" if request.verb in _WRITES else "reads"


class Placer(MeasuredProcess):
    """A real API server, and the controller's process once it is started."""

    def __init__(self, directory: Path, unlimited: bool) -> None:
        super().__init__(directory)
        self.unlimited = unlimited

    def prepare(self) -> None:
        """Everything but the controller."""
        self.plane.start()
        self.install()
        admin = self.plane.client()
        self._own = ocm.service_account_kubeconfig(
            self.plane.cluster, admin, ocm.HUB_NAMESPACE, ACCOUNT, self.directory / "own.kubeconfig"
        )
        admin.close()

    def install(self) -> None:
        command: list[str | Path] = [MUSTER, "placement", "--install-only", f"--kubeconfig={self.plane.kubeconfig}"]
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        flags = [f"--kubeconfig={self._own}", "--disable-leader-election"]
        environment = {"POD_NAME": "placement", "KUBECONFIG": ""}
        self._server = Server(self.name, [*self.command(), *flags], self.directory / "placement.log", environment)
        self._server.start()

    @abc.abstractmethod
    def command(self) -> list[str | Path]: ...


class Ours(Placer):
    name = "muster"

    def command(self) -> list[str | Path]:
        return [MUSTER, "placement", "--no-install", "--health-port=0"]


class Upstream(Placer):
    name = "upstream"

    def install(self) -> None:
        super().install()
        admin = self.plane.client()
        # It looks for ConfigMaps and Pods at its start, and ends without them.
        subject = {"kind": "ServiceAccount", "namespace": ocm.HUB_NAMESPACE, "name": ACCOUNT}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        metadata = {"name": "bench-placement"}
        ocm.create(admin, f"{ocm.RBAC}/clusterrolebindings", {"metadata": metadata, "subjects": [subject], "roleRef": reference})
        admin.close()

    def command(self) -> list[str | Path]:
        (port,) = free_ports(1)
        limits = ["--kube-api-qps=10000", "--kube-api-burst=10000"] if self.unlimited else []
        return [peers.need("placement"), "controller", f"--listen=127.0.0.1:{port}", *limits]
