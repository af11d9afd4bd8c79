"""The hub's side of works as the process people run: `muster work-hub`, with its own service account's rights."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.administrator import HUB_NAMESPACE, RBAC, Administrator, service_account_token
from tests.support.client import Client, Reply
from tests.support.planes import Cluster, write_kubeconfig
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER, http_status

Document = dict[str, Any]
WORK_GROUP = "work.open-cluster-management.io"
ACCOUNT = "work-controller-sa"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WORK_VALIDATOR = "manifestworkvalidators.admission.work.open-cluster-management.io"


def works(cluster: str, name: str = "") -> str:
    return f"/apis/{WORK_GROUP}/v1/namespaces/{cluster}/manifestworks" + (f"/{name}" if name else "")


class WorkHub(Administrator):
    """`muster work-hub` as a process; it is its own `Administrator`."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        super().__init__(cluster)
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.webhook_port, self.health_port = free_ports(2)
        self.kubeconfig = directory / "work-hub.kubeconfig"
        self._webhooks = [f"--webhook-port={self.webhook_port}", f"--webhook-url=https://127.0.0.1:{self.webhook_port}"]
        self.process: Server | None = None

    def install(self, *flags: str) -> None:
        """As administrator; and a kubeconfig of the hub's own account."""
        command: list[str | Path] = [MUSTER, "work-hub", "--kubeconfig", self.cluster.kubeconfig, "--install-only", *self._webhooks]
        done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        token = service_account_token(self.admin, HUB_NAMESPACE, ACCOUNT)
        write_kubeconfig(self.kubeconfig, self.cluster.url, self.cluster.ca, {"token": token})

    def start(self, *flags: str) -> None:
        own: list[str | Path] = [MUSTER, "work-hub", "--kubeconfig", self.kubeconfig, "--no-install", "--no-leader-elect"]
        command = [*own, *self._webhooks, f"--health-port={self.health_port}", *flags]
        self.process = Server(f"muster work-hub on {self.cluster.name}", command, self._directory / "work-hub.log")
        self.servers[:] = [self.process]
        self.process.start()
        self.process.wait_until(lambda: http_status(self.health_port, "/readyz") == 200, 30)

    def stop(self) -> None:
        assert self.process is not None, "started"
        self.process.stop(kill=False, timeout=10)

    def namespace(self, name: str) -> None:
        assert self.admin.post("/api/v1/namespaces", {"metadata": {"name": name}}).status in (201, 409)

    def let(self, name: str, subject: Document, rules: Sequence[Document], namespace: str = "") -> None:
        """Give somebody rights, in one namespace or everywhere."""
        api = "rbac.authorization.k8s.io"
        assert self.admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)}).status in (201, 409)
        reference = {"apiGroup": api, "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [{"apiGroup": api, **subject}]}
        path = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
        assert self.admin.post(path, binding).status in (201, 409)

    def accepted(self, client: Client, path: str, document: Document) -> Reply:
        """Creates as soon as that is allowed: what was granted is known to the API server a moment later."""
        seen: list[Reply] = []

        def tried() -> bool:
            seen.append(client.post(path, document))
            return seen[-1].status == 201

        self.wait(tried, f"{document['metadata']['name']} to be accepted")
        return seen[-1]
