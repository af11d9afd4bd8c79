"""A hub without Kubernetes as people run it: `muster grpc-server --persistence sql`, and `muster hub` by the kubeconfig it writes.

Agents speak the wire's own messages here; that agents of ours and of Go do the same is shown elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import orjson
import pytest

from muster.api.agents import CSR_USER, GRPC_SIGNER, AgentIdentity, cluster_group
from muster.http.tls import client_context
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.hub.clusters.rbac import common_roles
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE
from muster.runtime.client import HttpClient, KubeClient, NotFound, Unreachable
from muster.runtime.client.builtin import LEASES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.runtime.install import RBAC_GROUP, binding
from muster.transport.codecs.objects import encode_object
from muster.transport.codecs.resync import encode_resync_request
from muster.transport.contract.event import CloudEvent, SubscriptionRequest
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW, WORKS, Row
from muster.transport.contract.types import HEARTBEAT, Action, EventType, Subresource
from muster.transport.contract.wire import (
    PUBLISH,
    SUBSCRIBE,
    decode_event,
    encode_publish_request,
    encode_subscription_request,
)
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.status import Code, RpcError
from tests.support.pki import Authority
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER, http_status
from tests.unit.store.conftest import new_database
from tests.unit.store.postgres_server import PostgresServer
from tests.unit.transport.services.store.hubs import applied, signing_request, work_report

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


class WireAgent:
    """Speaks to one server with a token or a certificate."""

    def __init__(self, server: SqlServer, authority: Authority, token: str = "", directory: Path | None = None) -> None:
        tls = client_context(authority.pair.cert.read_bytes(), alpn="h2")
        if directory is not None:
            identity = AgentIdentity(CLUSTER, "agent1")
            pair = authority.issue(identity.common_name, organizations=tuple(sorted(identity.organizations)), file="agent")
            tls.load_cert_chain(pair.cert, pair.key)

        async def bearer() -> str:
            return token

        self._channel = RpcChannel("127.0.0.1", server.port, tls=tls, token=bearer if token else None)

    async def close(self) -> None:
        await self._channel.close()

    async def send(self, event: CloudEvent) -> None:
        await self._channel.unary(PUBLISH, encode_publish_request(event), timeout=10)

    async def publish(self, row: Row, subresource: Subresource, action: Action, obj: Object) -> None:
        await self.send(encode_object(row, obj, EventType(row.data_type, subresource, action), source=CLUSTER, now=SYSTEM.now()))

    async def resync(self, row: Row) -> None:
        await self.send(encode_resync_request(row.data_type, CLUSTER, [], source=CLUSTER, now=SYSTEM.now()))

    @asynccontextmanager
    async def subscribed(self, row: Row) -> AsyncIterator[AsyncIterator[CloudEvent]]:
        request = encode_subscription_request(SubscriptionRequest(cluster_name=CLUSTER, data_type=str(row.data_type)))
        async with self._channel.stream(SUBSCRIBE, request, timeout=10) as stream:

            async def events() -> AsyncIterator[CloudEvent]:
                async for message in stream:
                    event = decode_event(message)
                    if event.type != HEARTBEAT:
                        yield event

            yield events()


@pytest.fixture(scope="module")
def database_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


async def next_event(events: AsyncIterator[CloudEvent]) -> CloudEvent:
    async with asyncio.timeout(20):
        return await anext(events)


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


async def bind_agents(admin: KubeClient) -> None:
    """What the driver has the hub do once it has issued a certificate, which here the test's own authority does."""
    group = {"kind": "Group", "name": cluster_group(CLUSTER), "apiGroup": RBAC_GROUP}
    for role in common_roles({}):
        name = role.body["metadata"]["name"]
        await admin.apply(ROLE_BINDINGS, binding(f"test:{name}", "ClusterRole", name, group, CLUSTER), manager="test")


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
            [MUSTER, "hub", f"--kubeconfig={first.kubeconfig}", f"--health-port={health}", f"--webhook-port={webhooks}"],
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
            request = signing_request(CLUSTER, f"{CLUSTER}-abcde")
            await newcomer.publish(SIGNING_REQUEST_ROW, Subresource.SPEC, Action.CREATE, request)
            made = orjson.loads((await next_event(answers)).data or b"")
        assert made["spec"]["signerName"] == GRPC_SIGNER
        assert made["metadata"]["annotations"][CSR_USER].endswith(f":{BOOTSTRAP_ACCOUNT}")
        with pytest.raises(RpcError) as refused:
            async with newcomer.subscribed(WORKS):
                pass
        assert refused.value.code is Code.PERMISSION_DENIED

        await admin.patch(CLUSTERS.resource, CLUSTER, {"spec": {"hubAcceptsClient": True}})
        await eventually(admin, LEASES, "managed-cluster-lease", CLUSTER)
        await bind_agents(admin)
        agent = WireAgent(last, authority, directory=tmp_path)
        stack.push_async_callback(agent.close)
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

            if not shared:
                return
            last.process.stop(kill=True)
            with pytest.raises(RpcError):
                await next_event(works)
        elsewhere = WireAgent(first, authority, directory=tmp_path)
        stack.push_async_callback(elsewhere.close)
        async with elsewhere.subscribed(WORKS) as works:
            await elsewhere.resync(WORKS)
            assert (await next_event(works)).attributes["resourceid"] == work["metadata"]["uid"]
            await elsewhere.send(work_report(work, applied("by way of the other server")))
        found = await admin.get(WORKS.resource, "w", CLUSTER)
        assert found["status"]["conditions"][0]["message"] == "by way of the other server"
