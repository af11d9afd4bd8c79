"""The two work agents that `bench work` compares: `muster work-agent` and upstream's `work agent`.

Each gets a kube-apiserver of its own, started anew with the same flags, which is hub and managed cluster at once: two accounts,
one for either role, tell in the audit log what went where. Leader election is off in both; everything else is each side's
default, upstream's limit of 50 requests per second and client included, unless a case lifts it.
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

CLUSTER = "cluster1"
WORK = "/apis/work.open-cluster-management.io/v1"
HUB_ACCOUNT = "work-agent"
"""In the cluster's namespace: as whom the agent comes to the hub."""
OWN_ACCOUNT = "klusterlet-work-sa"
HUB_USER = f"system:serviceaccount:{CLUSTER}:{HUB_ACCOUNT}"
OWN_USER = f"system:serviceaccount:{ocm.AGENT_NAMESPACE}:{OWN_ACCOUNT}"
HUB_RULES = [
    {
        "apiGroups": ["work.open-cluster-management.io"],
        "resources": ["manifestworks"],
        "verbs": ["get", "list", "watch", "update", "patch"],
    },
    {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks/status"], "verbs": ["patch", "update"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
]


def party(request: Request) -> str:
    return {HUB_USER: "hub", OWN_USER: "own"}.get(request.user, "")


class Worker(MeasuredProcess):
    """A real API server, and one agent's process once it is started."""

    def __init__(self, directory: Path, unlimited: bool) -> None:
        super().__init__(directory)
        self.unlimited = unlimited

    def prepare(self) -> None:
        """Everything but the agent."""
        self.plane.start()
        admin = self.plane.client()
        ocm.install(admin, "hub", ocm.HUB_NAMESPACE)
        self.install()
        ocm.create(admin, "/api/v1/namespaces", {"metadata": {"name": CLUSTER}})
        ocm.create(admin, f"/api/v1/namespaces/{CLUSTER}/serviceaccounts", {"metadata": {"name": HUB_ACCOUNT}})
        place = f"{ocm.RBAC}/namespaces/{CLUSTER}"
        ocm.create(admin, f"{place}/roles", {"metadata": {"name": "work"}, "rules": HUB_RULES})
        subject = {"kind": "ServiceAccount", "namespace": CLUSTER, "name": HUB_ACCOUNT}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "work"}
        ocm.create(admin, f"{place}/rolebindings", {"metadata": {"name": "work"}, "subjects": [subject], "roleRef": reference})
        for kind in ("manifestworks", "appliedmanifestworks"):
            # The server takes a moment to be ready for a kind, and that moment is nobody's.
            ocm.wait_until(lambda kind=kind: admin.get(f"{WORK}/{kind}").status == 200, f"{kind} to be stored")  # type: ignore[misc]
        self._hub = ocm.service_account_kubeconfig(
            self.plane.cluster, admin, CLUSTER, HUB_ACCOUNT, self.directory / "hub.kubeconfig"
        )
        self._own = ocm.service_account_kubeconfig(
            self.plane.cluster, admin, ocm.AGENT_NAMESPACE, OWN_ACCOUNT, self.directory / "own.kubeconfig"
        )
        admin.close()

    def start(self) -> None:
        common = [
            f"--kubeconfig={self._own}",
            f"--workload-source-config={self._hub}",
            f"--spoke-cluster-name={CLUSTER}",
            f"--namespace={ocm.AGENT_NAMESPACE}",
            "--disable-leader-election",
        ]
        if self.unlimited:
            limits = (("kube-api-qps", 10000), ("kube-api-burst", 20000))
            common += [f"--{prefix}{name}={value}" for name, value in limits for prefix in ("", "hub-")]
        environment = {"POD_NAME": "agent", "KUBECONFIG": ""}
        self._server = Server(self.name, [*self.command(), *common], self.directory / "agent.log", environment)
        self._server.start()

    @abc.abstractmethod
    def command(self) -> list[str | Path]: ...


class Ours(Worker):
    name = "muster"

    def install(self) -> None:
        command: list[str | Path] = [MUSTER, "work-agent", "--install-only", f"--kubeconfig={self.plane.kubeconfig}"]
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)

    def command(self) -> list[str | Path]:
        return [MUSTER, "work-agent", "--health-port=0"]


class Upstream(Worker):
    name = "upstream"

    def install(self) -> None:
        admin = self.plane.client()
        ocm.install(admin, "agent", ocm.AGENT_NAMESPACE)
        admin.close()

    def command(self) -> list[str | Path]:
        (port,) = free_ports(1)
        return [peers.need("work"), "agent", f"--listen=127.0.0.1:{port}", "--status-sync-interval=10s"]
