"""`muster grpc-server --persistence sql` for `bench transport`: the server is the hub's API server itself, on a database.

It has the same clusters as the kube-apiserver of the comparison, made through its own API by the kubeconfig that it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.interop.grpc_fleet import OUR_PROGRAM, listens, write_server_config
from tests.support.pki import Authority
from tests.support.processes import Server, free_ports
from tests.support.registration import http_status

from bench.grpc_servers import SHARED_ROLE, SHARED_RULES, MeasuredServer, populate
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

WRITER = "bench-writer"
"""The account that a load writes works with."""


class OnSql(MeasuredServer):
    def __init__(self, name: str, directory: Path, database: str, clusters: int) -> None:
        super().__init__(directory, Authority(directory, "agents"))
        self.name = name
        self._clusters = clusters
        self._kubeconfig = directory / "kubeconfig"
        self._ca = directory / "api-ca.crt"
        self._token = ""
        self._api, self._health = free_ports(2)
        serving = self.authority.issue("grpc-server", hosts=("127.0.0.1",))
        config = write_server_config(directory / "server.yaml", serving, self.authority.pair.cert, self.port)
        command: list[str | Path] = [OUR_PROGRAM, "grpc-server", "--persistence=sql", f"--server-config={config}"]
        command += [f"--write-kubeconfig={self._kubeconfig}", f"--api-port={self._api}", f"--health-port={self._health}"]
        self.server = Server(name, command, directory / "server.log", {"MUSTER_DATABASE": database})

    def start(self) -> None:
        self.server.start()
        self.server.wait_until(lambda: listens(self.port) and http_status(self._health, "/readyz") == 200)
        asyncio.run(self._prepare())

    def kube_flags(self) -> dict[str, object]:
        return {"kube": load_kubeconfig(self._kubeconfig).server, "kube_ca": self._ca, "token": self._token}

    async def _prepare(self) -> None:
        async with self._administrator() as admin:
            await admin.apply(CLUSTER_ROLES, {"metadata": {"name": SHARED_ROLE}, "rules": SHARED_RULES}, manager="bench")
            await admin.apply(SERVICE_ACCOUNTS, {"metadata": {"name": WRITER, "namespace": "default"}}, manager="bench")
            writer = {
                "metadata": {"name": WRITER},
                "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": WRITER}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            }
            await admin.apply(CLUSTER_ROLE_BINDINGS, writer, manager="bench")
            asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
            issued = await admin.create(SERVICE_ACCOUNTS, asked, "default", name=WRITER, subresource="token")
            self._token = str(issued["status"]["token"])
            await populate(admin, self._clusters)
        ca = load_kubeconfig(self._kubeconfig).ca
        assert isinstance(ca, bytes), "in the file itself"
        self._ca.write_bytes(ca)

    @asynccontextmanager
    async def _administrator(self) -> AsyncIterator[HttpClient]:
        client = HttpClient(load_kubeconfig(self._kubeconfig), agent="bench")
        try:
            yield client
        finally:
            await client.close()
