"""Components of a hub as the processes people run, `muster placement`, `muster addon-manager` and `muster gateway`, each with the
rights of its own service account."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.administrator import HUB_NAMESPACE, Administrator, service_account_token
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER, http_status


class HubComponent(Administrator):
    program: str
    service_account: str

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        super().__init__(cluster)
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        (self.health_port,) = free_ports(1)
        self.kubeconfig = directory / f"{self.program}.kubeconfig"
        self.process: Server | None = None

    def install(self) -> None:
        """As administrator; and a kubeconfig of the controller's own account."""
        own: list[str | Path] = [MUSTER, self.program, "--kubeconfig", self.cluster.kubeconfig, "--install-only"]
        command = [*own, *self.install_flags()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        token = service_account_token(self.admin, HUB_NAMESPACE, self.service_account)
        write_kubeconfig(self.kubeconfig, self.cluster.url, self.cluster.ca, {"token": token})

    def install_flags(self) -> list[str]:
        return []

    def start_flags(self) -> list[str]:
        return ["--no-leader-elect"]

    def start(self, *flags: str) -> None:
        own: list[str | Path] = [MUSTER, self.program, "--kubeconfig", self.kubeconfig, "--no-install"]
        command = [*own, f"--health-port={self.health_port}", *self.start_flags(), *flags]
        self.process = Server(f"muster {self.program} on {self.cluster.name}", command, self._directory / f"{self.program}.log")
        self.servers[:] = [self.process]
        self.process.start()
        self.process.wait_until(lambda: http_status(self.health_port, "/readyz") == 200, 30)

    def stop(self) -> None:
        assert self.process is not None, "started"
        self.process.stop(kill=False, timeout=10)


class PlacementHub(HubComponent):
    program = "placement"
    service_account = "placement-controller-sa"


class AddonHub(HubComponent):
    program = "addon-manager"
    service_account = "addon-manager-controller-sa"


class GatewayHub(HubComponent):
    """Reached by the hub's API server through an APIService and a Service that leads to this machine."""

    program = "gateway"
    service_account = "cluster-gateway-sa"

    def __init__(self, cluster: Cluster, directory: Path, *flags: str) -> None:
        """`flags`: of the installation, and then of the process."""
        super().__init__(cluster, directory)
        (self.port,) = free_ports(1)
        self.audit_log = directory / "audit.log"
        self._flags = flags

    def install_flags(self) -> list[str]:
        return [f"--secure-port={self.port}", "--service-host=localhost", *self._flags]

    def start_flags(self) -> list[str]:
        return [*self.install_flags(), "--allow-loopback-endpoints", f"--audit-log={self.audit_log}"]


class PolicyAddonHub(HubComponent):
    program = "policy-addon"
    service_account = "hub-addons-controller-sa"


class OwnAddons(HubComponent):
    """Those that Muster brings itself."""

    program = "hub-addons"
    service_account = "hub-addons-controller-sa"
