"""Both sides of the gRPC driver with all that is between them: a hub's controllers, its gRPC server over TLS, and whole agents.

What stands for the managed cluster reaches the hub by the gRPC server's port alone.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.kube import yaml
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.confinement import read
from muster.registration.agent.agent import Agent
from muster.registration.agent.failover import objection
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
    DRIVER_ANNOTATION,
    HUB_NAMESPACE,
    cluster_role,
)
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, SERVICE_ACCOUNTS, SIGNING_REQUESTS
from muster.runtime.client.errors import Forbidden, KubeError, NotFound
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from tests.unit.registration.drivers.conftest import BOOTSTRAP, until
from tests.unit.registration.drivers.grpc_hub import SERVER, AuthorityFiles, approve

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
        files = [str(self.directory / name) for name in ("tls.crt", "tls.key", "ca.crt")]
        config = GrpcServerConfig(*files, server_bind_port=self.port)
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
        agent = Agent(self.spoke, options)
        task = asyncio.create_task(agent.run())
        try:
            yield agent
            assert not task.done(), task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

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


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    api = ApiServer(ServerConfig(store="memory", clusters=("hub", "c1")))
    await api.start()
    made = Site(api, tmp_path)
    await made.prepare()
    yield made
    await api.stop(grace=0.1)


def holding(probe: Callable[[], Any]) -> Callable[[], Awaitable[Any]]:
    async def asked() -> Any:
        return probe()

    return asked


async def test_a_cluster_joins_by_list_and_its_agent_alone_gets_rights(site: Site) -> None:
    async with site.running(), site.agent() as agent:
        await until(site.available)
        assert agent.state.phase == "serving"
        found = await site.admin.get(MANAGED_CLUSTERS, "c1")
        assert found["metadata"]["annotations"][DRIVER_ANNOTATION] == "grpc"
        binding = await site.admin.get(CLUSTER_ROLE_BINDINGS, cluster_role("c1"))
        certificate = x509.load_pem_x509_certificate((site.directory / "hub" / "tls.crt").read_bytes())
        assert site.signer.authority.signed(certificate)
        [user] = [one["name"] for one in binding["subjects"] if one["kind"] == "User"]
        assert user in certificate.subject.rfc4514_string()
    held = {path.name: path.read_bytes() for path in (site.directory / "hub").iterdir()}
    assert set(held) == {"cluster-name", "agent-name", "config.yaml", "tls.crt", "tls.key"}
    assert site.token.encode() not in b"".join(held.values())


async def test_an_administrator_approves_and_accepts_and_the_agent_is_in(site: Site) -> None:
    async with site.running(auto_approval=False), site.agent():
        [csr] = await until(lambda: requests(site))
        assert not (csr.get("status") or {}).get("conditions")
        await site.accept()
        await approve(site.admin, csr["metadata"]["name"])
        await until(site.available)
        assert len(await requests(site)) == 1


async def requests(site: Site) -> list[dict[str, Any]]:
    return (await site.admin.list(SIGNING_REQUESTS)).items


async def test_certificates_are_renewed_over_and_over_while_the_cluster_stays(site: Site) -> None:
    async with site.running(grpc_signing_duration="6s"), site.agent() as agent:
        await until(site.available)
        file, seen = site.directory / "hub" / "tls.crt", set()

        async def three() -> bool:
            seen.add(file.read_bytes())
            assert agent.state.phase == "serving"
            return len(seen) >= 3

        await until(three, 60)
        assert await site.available()


async def test_an_agent_and_a_hub_that_come_back_go_on_where_they_were(site: Site) -> None:
    async with site.running(), site.agent():
        await until(site.available)
    before = await requests(site)
    async with site.running(), site.agent() as agent:
        await until(holding(lambda: agent.state.phase == "serving"))
        await until(site.available)
    assert [one["metadata"]["uid"] for one in await requests(site)] == [one["metadata"]["uid"] for one in before]


async def test_whether_the_hub_lets_an_agent_in_is_asked_over_grpc(site: Site) -> None:
    driver = find("grpc")
    async with site.running(auto_approval=False):
        async with site.connected(site.bootstrap, "c1") as hub:
            assert await driver.missing_to_register(hub, "c1") == ()
            assert await objection(hub, "c1", "grpc") == ""
            missing = await driver.missing_to_serve(hub, "c1")
        assert "list and watch leases" in missing
        assert "list and watch manifestworks" in missing
        stranger = site.directory / "stranger.yaml"
        stranger.write_bytes(site.bootstrap.read_bytes().replace(site.token.encode(), b"nobodys-token"))
        async with site.connected(stranger, "c1") as hub:
            assert "valid client certificate or bearer token" in await objection(hub, "c1", "grpc")
        async with site.agent():
            [csr] = await until(lambda: requests(site))
            await site.accept()
            await approve(site.admin, csr["metadata"]["name"])
            await until(site.available)
        async with site.connected(site.directory / "hub" / "config.yaml") as hub:
            assert await driver.missing_to_serve(hub, "c1") == ()
        await site.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": False}})
        await until(lambda: denied_to_serve(site))
    async with site.connected(site.bootstrap, "c1") as hub:
        with pytest.raises(KubeError):
            await asyncio.wait_for(driver.missing_to_register(hub, "c1"), 20)


async def denied_to_serve(site: Site) -> bool:
    async with site.connected(site.directory / "hub" / "config.yaml") as hub:
        return "list and watch leases" in await find("grpc").missing_to_serve(hub, "c1")


async def test_what_an_agent_holds_leads_it_to_its_own_cluster_alone(site: Site) -> None:
    async with site.running(), site.agent():
        await until(site.available)
        await site.admin.create(
            MANAGED_CLUSTERS,
            {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, "metadata": {"name": "c2"}},
        )
        async with site.connected(site.directory / "hub" / "config.yaml", "c2") as hub:
            for question in (hub.get(MANAGED_CLUSTERS, "c2"), hub.list(SIGNING_REQUESTS)):
                with pytest.raises((Forbidden, NotFound)) as refused:
                    await question
                assert isinstance(refused.value, Forbidden)
