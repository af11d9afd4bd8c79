"""A hub on an API server in this process, and services over it with an account that has the rights they say they need."""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from muster.api.agents import CLUSTER_LABEL, GRPC_SIGNER, LEASE, AgentIdentity
from muster.api.cluster.write_rules import ClusterWriteRules
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.kube import certificates
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR, Object
from muster.registration.hub.install import WebhookEndpoint, install
from muster.runtime.auth import AccessReviewer
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, NAMESPACES
from muster.runtime.client.errors import KubeError, NotFound
from muster.runtime.client.rest import JSON, Query
from muster.transport.codecs.objects import encode_object
from muster.transport.contract.event import CLUSTER, MAX_EVENT, CloudEvent
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, ROWS, SIGNING_REQUEST_ROW, WORKS, Row
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.services.interfaces import ResourceChange, Service
from muster.transport.services.kube import kube_services
from muster.transport.services.kube.rights import SERVICE_RULES

ACCOUNT = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"


class ServerClient(InProcessClient):
    """Notes requests that are no watches, does something before one of them where a test wants it, and can be cut off."""

    requests: list[tuple[str, str]]
    before: Callable[[str, str], Awaitable[None]] | None
    outage: KubeError | None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.requests, self.before, self.outage = [], None, None

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.requests.append((method, path))
        if self.outage is not None:
            raise self.outage
        if self.before is not None:
            await self.before(method, path)
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        async for line in super().lines(path, query, timeout, opened):
            if self.outage is not None:
                raise self.outage
            yield line

    def taken(self) -> list[tuple[str, str]]:
        """Requests since the last call."""
        found, self.requests = self.requests, []
        return found


@dataclass(frozen=True)
class AgentCaller:
    user: UserInfo
    cluster: str
    is_agent: bool = True


def agent(cluster: str, name: str = "a1") -> AgentCaller:
    who = AgentIdentity(cluster, name)
    return AgentCaller(UserInfo(who.common_name, groups=(*sorted(who.organizations), "system:authenticated")), cluster)


def newcomer(cluster: str) -> AgentCaller:
    return AgentCaller(UserInfo("system:serviceaccount:bootstrap:join", groups=("system:authenticated",)), cluster, False)


@dataclass
class Told:
    """What a service has told, as (action, cluster, uid), and the changes themselves."""

    changes: list[ResourceChange] = field(default_factory=list)

    def __call__(self, change: ResourceChange) -> None:
        self.changes.append(change)

    @property
    def steps(self) -> list[tuple[Action, str, str]]:
        return [(change.action, change.cluster, change.resource_id) for change in self.changes]


class Hub:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.admin = self.client()
        self.account = ServerClient(self._direct(UserInfo(ACCOUNT, groups=("system:authenticated",))))
        self.services: dict[Any, Service] = {}

    def client(self) -> InProcessClient:
        return InProcessClient(self.server.client(self.server.clusters["default"]))

    def _direct(self, user: UserInfo) -> Any:
        return self.server.client(self.server.clusters["default"], user)

    async def prepare(self, webhooks: WebhookEndpoint | None = None) -> None:
        await install(self.admin, webhooks=webhooks)
        await self.allow("grpc-server", list(SERVICE_RULES), ACCOUNT)

    async def allow(self, name: str, rules: list[Object], user: str) -> None:
        group = "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
        await self.admin.create(CLUSTER_ROLES, role)
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        await self.admin.create(CLUSTER_ROLE_BINDINGS, binding)

    @asynccontextmanager
    async def serving(
        self,
        *,
        rules: ClusterWriteRules | None = None,
        clock: Clock = SYSTEM,
        client: ServerClient | None = None,
        max_event: int = MAX_EVENT,
    ) -> AsyncIterator[dict[Any, Service]]:
        """Services that run, once they know everything."""
        authorizer = AccessReviewer(self.admin, allowed_for=0, refused_for=0)
        account = client or self.account
        services = kube_services(account, authorizer, rules=rules, max_event=max_event, clock=clock, random=lambda: 0.0)
        tasks = [asyncio.create_task(service.run()) for service in services.values()]
        try:
            await until(lambda: all(service.synced or not service.served for service in services.values()))
            yield services
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def idle(self) -> dict[Any, Service]:
        """Services that do not run, and know nothing."""
        return dict(kube_services(self.account, AccessReviewer(self.admin)))

    async def create(self, row: Row, metadata: Object, **body: Any) -> Object:
        resource = row.resource
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}
        return await self.admin.create(resource, whole, metadata.get("namespace", ""))

    async def create_cluster(self, name: str, *, accepted: bool = True, **metadata: Any) -> Object:
        """With its namespace and its lease, as the hub's controllers make them."""
        cluster = await self.create(CLUSTERS, {"name": name, **metadata}, spec={"hubAcceptsClient": accepted})
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {CLUSTER_LABEL: name}}}
        await self.admin.create(NAMESPACES, namespace)
        await self.create_lease(name)
        return cluster

    async def create_lease(self, cluster: str, name: str = LEASE) -> Object:
        metadata = {"name": name, "namespace": cluster, "labels": {CLUSTER_LABEL: cluster}}
        return await self.create(LEASE_ROW, metadata, spec={"leaseDurationSeconds": 60, "renewTime": "2026-01-02T03:04:05.000000Z"})

    async def create_work(self, cluster: str, name: str, value: str = "a", **metadata: Any) -> Object:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "x"}, "data": {"a": value}}
        return await self.create(
            WORKS, {"name": name, "namespace": cluster, **metadata}, spec={"workload": {"manifests": [config]}}
        )

    async def get(self, row: Row | GVR, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.admin.get(row.resource if isinstance(row, Row) else row, name, namespace)
        except NotFound:
            return None

    async def lease(self, cluster: str) -> Object:
        return await self.admin.get(LEASES, LEASE, cluster)


async def until(probe: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The first true answer."""
    async with asyncio.timeout(seconds):
        while True:
            if found := probe():
                return found
            await asyncio.sleep(0.002)


def publish(
    row: Row, obj: Object, subresource: Subresource = Subresource.SPEC, action: Action = Action.UPDATE, *, cluster: str = ""
) -> CloudEvent:
    """What an agent publishes about an object; with a `cluster`, it says that it is this one's, whatever the object says."""
    event_type = EventType(row.data_type, subresource, action)
    whole = {"apiVersion": row.resource.api_version, "kind": row.resource.kind, **obj}
    event = encode_object(row, whole, event_type, source="agent", now=datetime(2026, 1, 2, tzinfo=UTC))
    return CloudEvent(
        id=event.id,
        source=event.source,
        type=event.type,
        attributes={**event.attributes, **({CLUSTER: cluster} if cluster else {})},
        data=event.data,
    )


def data_of(event: CloudEvent) -> Object:
    assert event.data is not None
    document: Object = orjson.loads(event.data)
    return document


def service_of(services: dict[Any, Service], row: Row) -> Service:
    assert row in ROWS.values()
    return services[row.data_type]


def listen(row: Row, services: dict[Any, Service]) -> Told:
    told = Told()
    service_of(services, row).register_handler(told)
    return told


def signing_request_spec(common_name: str = "someone", signer: str = GRPC_SIGNER) -> Object:
    pem = certificates.signing_request(certificates.generate_key(), certificates.subject(common_name, []), ())
    return {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": ["client auth"]}


async def signing_request(hub: Hub, name: str, cluster: str) -> Object:
    labels = {CLUSTER_LABEL: cluster}
    return await hub.create(SIGNING_REQUEST_ROW, {"name": name, "labels": labels}, spec=signing_request_spec())


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    hub = Hub(server)
    await hub.prepare()
    yield hub
    await server.stop(grace=0.1)
