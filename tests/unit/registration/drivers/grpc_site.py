"""A hub with all of its gRPC side in this process: controllers, server over TLS, and agents that know nothing but its port."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.kube import yaml
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.confinement import read
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import install as install_agent
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers import find
from muster.registration.drivers.endpoints import ClientSettings
from muster.registration.hub.install import ACCOUNT, install
from muster.registration.hub.manager import Hub
from muster.registration.hub.options import HubOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import (
    BOOTSTRAP_ACCOUNT,
    BOOTSTRAP_NAMESPACE,
    HUB_NAMESPACE,
)
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from tests.support.agents import agent_running
from tests.unit.registration.drivers.conftest import BOOTSTRAP, until
from tests.unit.registration.drivers.grpc_hub import SERVER, AuthorityFiles

ACCOUNTS = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated")


class Site:
    def __init__(self, api: ApiServer, directory: Path) -> None:
        self.api = api
        self.directory = directory
        self.admin = self._client("hub", "admin")
        self.spoke = self._client("c1", "admin")
        self.signer = AuthorityFiles(directory / "signer")
        self.port = 0
        self.token = ""

    def _client(self, cluster: str, name: str, groups: tuple[str, ...] = ("system:masters",)) -> InProcessClient:
        return InProcessClient(self.api.client(self.api.clusters[cluster], UserInfo(name, groups=groups)))

    async def prepare(self) -> None:
        await install(self.admin)
        await install_agent(self.spoke, AgentOptions())
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        answer = await self.admin.create(
            SERVICE_ACCOUNTS, request, BOOTSTRAP_NAMESPACE, name=BOOTSTRAP_ACCOUNT, subresource="token"
        )
        self.token = answer["status"]["token"]
        self.serving = CertificateAuthority.create("serving", SYSTEM.now())
        pair = self.serving.issue("server", SYSTEM.now(), timedelta(hours=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",))
        (self.directory / "tls.crt").write_bytes(pair.certificate)
        (self.directory / "tls.key").write_bytes(pair.key)
        (self.directory / "ca.crt").write_bytes(self.signer.authority.pem)

    def hub(self, *, auto_approval: bool = True, **told: str) -> Hub:
        options = HubOptions(
            drivers=("csr", "grpc"), auto_approval=auto_approval, driver_options={"grpc": self.signer.options(BOOTSTRAP, **told)}
        )
        account = f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}"
        return Hub(self._client("hub", account, ACCOUNTS), options)

    @asynccontextmanager
    async def running(self, *, auto_approval: bool = True, **told: str) -> AsyncIterator[None]:
        """The hub's controllers and its gRPC server."""
        cert, key, ca = (str(self.directory / name) for name in ("tls.crt", "tls.key", "ca.crt"))
        config = GrpcServerConfig(cert, key, ca, server_bind_port=self.port)
        server = GrpcServer(self._client("hub", SERVER), GrpcServerOptions(config, "127.0.0.1"))
        await server.start()
        self.port = server.port
        tasks = [asyncio.create_task(run()) for run in (server.run, self.hub(auto_approval=auto_approval, **told).run)]
        try:
            await server.synced()
            yield
        finally:
            await server.stop(grace=0.1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def bootstrap(self) -> Path:
        data = base64.b64encode(self.serving.pem).decode()
        path = self.directory / "bootstrap.yaml"
        path.write_bytes(yaml.dump({"url": f"127.0.0.1:{self.port}", "token": self.token, "caData": data}).encode())
        return path

    @asynccontextmanager
    async def agent(self, cluster: str = "c1") -> AsyncIterator[Agent]:
        options = AgentOptions(
            cluster_name=cluster,
            driver="grpc",
            bootstrap_kubeconfigs=(self.bootstrap,),
            hub_kubeconfig_dir=self.directory / "hub",
        )
        async with agent_running(Agent(self.spoke, options)) as agent:
            yield agent

    @asynccontextmanager
    async def connected(self, file: Path, cluster: str = "") -> AsyncIterator[KubeClient]:
        endpoint = find("grpc").endpoints.read(file, read(file))
        client = endpoint.connect(ClientSettings("test", cluster=cluster))
        try:
            yield client
        finally:
            await client.close()

    async def accept(self, name: str = "c1") -> None:
        await until(lambda: self.admin.patch(MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": True}}))

    async def available(self, name: str = "c1") -> bool:
        conditions = ((await self.admin.get(MANAGED_CLUSTERS, name)).get("status") or {}).get("conditions") or ()
        return {"ManagedClusterConditionAvailable", "ManagedClusterJoined"} <= {
            one["type"] for one in conditions if one["status"] == "True"
        }


@asynccontextmanager
async def grpc_site(directory: Path) -> AsyncIterator[Site]:
    api = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub", "c1")))
    await api.start()
    made = Site(api, directory)
    await made.prepare()
    try:
        yield made
    finally:
        await api.stop(grace=0.1)
