"""A hub without Kubernetes as people run it: `muster grpc-server --persistence sql`, and `muster hub` by the kubeconfig it writes.

Agents speak the wire's own messages here; that agents of ours and of Go do the same is shown elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import orjson
import pytest

from muster.api.agents import CSR_USER, GRPC_SIGNER
from muster.kube.certificates import generate_key, key_pem
from muster.machinery.objects import Object
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE
from muster.runtime.client import HttpClient, KubeClient, NotFound, Unreachable
from muster.runtime.client.builtin import LEASES, SERVICE_ACCOUNTS, SIGNING_REQUESTS
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW, WORKS, Row
from muster.transport.contract.types import Action, Subresource
from muster.transport.rpc.status import Code, RpcError
from tests.support import wire_agent
from tests.support.pki import Authority, Pair
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER, http_status
from tests.support.sites import embedded_only
from tests.support.wire_agent import next_event
from tests.unit.store.conftest import new_database
from tests.unit.store.postgres_server import PostgresServer
from tests.unit.transport.services.store.hubs import applied, signing_request, work_report

pytestmark = embedded_only

CLUSTER = "cluster1"


class SqlServer:
    """A `muster grpc-server` process on a database."""

    def __init__(self, database: str, directory: Path, name: str, authority: Authority) -> None:
        self.port, self.api_port, self.health_port = free_ports(3)
        self.kubeconfig = directory / f"{name}.kubeconfig"
        serving = authority.issue("muster-grpc", hosts=("127.0.0.1",), file=f"{name}-serving")
        config = directory / f"{name}.yaml"
        config.write_text(
            f"tls_cert_file: {serving.cert}\ntls_key_file: {serving.key}\nclient_ca_file: {authority.pair.cert}\n"
            f'server_bind_port: "{self.port}"\n'
        )
        command: list[str | Path] = [MUSTER, "grpc-server", "--persistence", "sql", f"--server-config={config}"]
        command += [f"--write-kubeconfig={self.kubeconfig}", f"--api-port={self.api_port}", f"--health-port={self.health_port}"]
        self.process = Server(f"grpc-server {name}", command, directory / f"{name}.log", {"MUSTER_DATABASE": database})

    async def start(self) -> None:
        self.process.start()
        await asyncio.to_thread(self.process.wait_until, lambda: http_status(self.health_port, "/readyz") == 200, 60)

    def administrator(self) -> HttpClient:
        return HttpClient(load_kubeconfig(self.kubeconfig))


class WireAgent(wire_agent.WireAgent):
    """Speaks to one server with a token or a certificate."""

    def __init__(self, server: SqlServer, authority: Authority, token: str = "", credential: Pair | None = None) -> None:
        super().__init__(server.port, authority, CLUSTER, token, credential)


@pytest.fixture(scope="module")
def database_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


async def eventually(client: KubeClient, row_resource: object, name: str, namespace: str = "") -> Object:
    async with asyncio.timeout(30):
        while True:
            try:
                return await client.get(row_resource, name, namespace)  # type: ignore[call-overload]
            except NotFound:
                await asyncio.sleep(0.05)
            except Unreachable:
                await asyncio.sleep(0.2)


async def bootstrap_token(admin: KubeClient) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    issued = await admin.create(SERVICE_ACCOUNTS, request, BOOTSTRAP_NAMESPACE, name=BOOTSTRAP_ACCOUNT, subresource="token")
    return str(issued["status"]["token"])


async def until_allowed(agent: WireAgent, row: Row) -> None:
    await agent.until_allowed(row)


async def approve(admin: KubeClient, name: str) -> None:
    """As `kubectl certificate approve` does."""
    request = await admin.get(SIGNING_REQUESTS, name)
    approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "by an administrator"}
    await admin.update(SIGNING_REQUESTS, {**request, "status": {"conditions": [approved]}}, subresource="approval")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_cluster_joins_and_works_without_any_kubernetes(kind: str, database_server: PostgresServer, tmp_path: Path) -> None:
    shared = kind == "postgres"
    database = await new_database(database_server) if shared else f"sqlite:///{tmp_path}/hub.db"
    authority = Authority(tmp_path, "ca")
    async with AsyncExitStack() as stack:
        names = ["one", "two"] if shared else ["one"]
        servers = [SqlServer(database, tmp_path, name, authority) for name in names]
        for server in servers:
            stack.callback(server.process.stop, kill=True)
        await asyncio.gather(*(server.start() for server in servers))
        first, last = servers[0], servers[-1]
        admin = first.administrator()
        stack.push_async_callback(admin.close)
        health, webhooks = free_ports(2)
        hub = Server(
            "muster hub",
            [
                *(MUSTER, "hub", f"--kubeconfig={first.kubeconfig}", f"--health-port={health}", f"--webhook-port={webhooks}"),
                "--enabled-registration-drivers=grpc",
                f"--grpc-ca-file={authority.pair.cert}",
                f"--grpc-key-file={authority.pair.key}",
            ],
            tmp_path / "hub.log",
        )
        stack.callback(hub.stop, kill=True)
        hub.start()
        await asyncio.to_thread(hub.wait_until, lambda: http_status(health, "/readyz") == 200, 60)

        newcomer = WireAgent(last, authority, await bootstrap_token(admin))
        stack.push_async_callback(newcomer.close)
        async with newcomer.subscribed(SIGNING_REQUEST_ROW) as answers:
            body = {"metadata": {"name": CLUSTER}, "spec": {"hubAcceptsClient": False}}
            await newcomer.publish(CLUSTERS, Subresource.SPEC, Action.CREATE, body)
            key = generate_key()
            request = signing_request(CLUSTER, f"{CLUSTER}-abcde", key)
            await newcomer.publish(SIGNING_REQUEST_ROW, Subresource.SPEC, Action.CREATE, request)
            made = orjson.loads((await next_event(answers)).data or b"")
            await approve(admin, made["metadata"]["name"])
            signed: Object = {}
            while not (signed.get("status") or {}).get("certificate"):
                signed = orjson.loads((await next_event(answers)).data or b"")
        credential = Pair(tmp_path / "agent.crt", tmp_path / "agent.key")
        credential.cert.write_bytes(base64.b64decode(signed["status"]["certificate"]))
        credential.key.write_bytes(key_pem(key))
        assert made["spec"]["signerName"] == GRPC_SIGNER
        assert made["metadata"]["annotations"][CSR_USER].endswith(f":{BOOTSTRAP_ACCOUNT}")
        with pytest.raises(RpcError) as refused:
            async with newcomer.subscribed(WORKS):
                pass
        assert refused.value.code is Code.PERMISSION_DENIED

        await admin.patch(CLUSTERS.resource, CLUSTER, {"spec": {"hubAcceptsClient": True}})
        await eventually(admin, LEASES, "managed-cluster-lease", CLUSTER)
        agent = WireAgent(last, authority, credential=credential)
        stack.push_async_callback(agent.close)
        await until_allowed(agent, LEASE_ROW)
        async with agent.subscribed(LEASE_ROW) as leases, agent.subscribed(WORKS) as works:
            await agent.resync(LEASE_ROW)
            lease = orjson.loads((await next_event(leases)).data or b"")
            renewed = {**lease, "spec": {"renewTime": "2026-11-16T00:00:01.000000Z"}}
            await agent.publish(LEASE_ROW, Subresource.SPEC, Action.UPDATE, renewed)
            assert orjson.loads((await next_event(leases)).data or b"")["spec"]["renewTime"] == renewed["spec"]["renewTime"]
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
            work = await admin.create(
                WORKS.resource,
                {
                    "apiVersion": WORKS.resource.api_version,
                    "kind": WORKS.resource.kind,
                    "metadata": {"name": "w", "namespace": CLUSTER},
                    "spec": {"workload": {"manifests": [manifest]}},
                },
                CLUSTER,
            )
            told = await next_event(works)
            assert told.attributes["resourceid"] == work["metadata"]["uid"]
            await agent.send(work_report(work, applied("by the agent")))
            found = await admin.get(WORKS.resource, "w", CLUSTER)
            assert found["status"]["conditions"][0]["message"] == "by the agent"

            # With one server it is restarted; with two the one in use is killed, and agents go to the other.
            await asyncio.to_thread(last.process.stop, kill=shared)
            with pytest.raises(RpcError):
                await next_event(works)
        if not shared:
            await first.start()
        elsewhere = WireAgent(first, authority, credential=credential)
        stack.push_async_callback(elsewhere.close)
        async with elsewhere.subscribed(WORKS) as works:
            await elsewhere.resync(WORKS)
            assert (await next_event(works)).attributes["resourceid"] == work["metadata"]["uid"]
            await elsewhere.send(work_report(work, applied("by way of the other server")))
        found = await admin.get(WORKS.resource, "w", CLUSTER)
        assert found["status"]["conditions"][0]["message"] == "by way of the other server"
