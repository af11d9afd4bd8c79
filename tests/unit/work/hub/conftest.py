"""A hub on an API server in this process whose webhooks of works are really called, over TLS, and judge as their own account."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import ACCESS_REVIEWS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, ROLE_BINDINGS
from muster.runtime.client.rest import JSON, Query
from muster.runtime.install import apply_all, ensure_namespace
from muster.runtime.webhook.serving import ServingOptions
from muster.work.hub.install import ACCOUNT, install, permissions
from muster.work.hub.options import WorkHubOptions
from muster.work.hub.webhook_server import Webhooks
from muster.work.kinds import MANIFEST_WORKS, REPLICA_SETS

RBAC = "rbac.authorization.k8s.io"
WORK_GROUP = "work.open-cluster-management.io"
EXEC1, EXEC2 = ("sa-ns", "exec1"), ("sa-ns", "exec2")


class NotingClient(InProcessClient):
    """Notes the access reviews that are asked for."""

    reviews: list[Object]

    async def create(self, resource: Any, obj: Any, *arguments: Any, **options: Any) -> Any:
        if resource == ACCESS_REVIEWS:
            self.reviews.append(obj["spec"])
        return await super().create(resource, obj, *arguments, **options)


class Broken(NotingClient):
    """Its server does not answer reviews."""

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if "subjectaccessreviews" in path:
            path = path.replace("subjectaccessreviews", "no-such-reviews")
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


class Hub:
    """The server, its users, and what the webhooks asked."""

    def __init__(self, server: ApiServer, kind: type[NotingClient] = NotingClient) -> None:
        self.server = server
        self.admin = self.user("admin", "system:masters")
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated")
        account = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", groups=groups)
        self.own = kind(server.client(server.clusters["hub"], account))
        self.own.reviews = []

    def user(self, name: str, *groups: str, extra: dict[str, tuple[str, ...]] | None = None) -> InProcessClient:
        user = UserInfo(name, uid=f"{name}-uid", groups=(*groups, "system:authenticated"), extra=extra or {})
        return InProcessClient(self.server.client(self.server.clusters["hub"], user))

    async def let(self, name: str, subject: Object, rules: list[Object], namespace: str = "") -> None:
        """Give somebody rights in one namespace or everywhere."""
        await self.admin.apply(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules}, manager="test")
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        resource = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        await self.admin.apply(resource, {"metadata": metadata, "roleRef": reference, "subjects": [subject]}, manager="test")

    async def writer(self, name: str) -> InProcessClient:
        """Somebody who may write works and replica sets, and act as nobody."""
        await self.let(f"writes-{name}", user_subject(name), WRITES)
        return self.user(name)

    async def let_execute(self, name: str, executor: tuple[str, str], namespace: str = "cluster1") -> None:
        label = f"{name}-{executor[1]}-{namespace or 'all'}"
        await self.let(f"executes-{label}", user_subject(name), [execute_as(executor)], namespace)

    async def until(self, probe: Callable[[], Awaitable[Any]], seconds: float = 30.0) -> Any:
        async with asyncio.timeout(seconds):
            while True:
                if found := await probe():
                    return found
                await asyncio.sleep(0.01)


WRITES: list[Object] = [
    {
        "apiGroups": [WORK_GROUP],
        "resources": ["manifestworks", "manifestworkreplicasets"],
        "verbs": ["get", "create", "update", "patch", "delete"],
    },
    {"apiGroups": [WORK_GROUP], "resources": ["manifestworks/status"], "verbs": ["patch"]},
]


def user_subject(name: str) -> Object:
    return {"apiGroup": RBAC, "kind": "User", "name": name}


def execute_as(executor: tuple[str, str]) -> Object:
    return {
        "apiGroups": [WORK_GROUP],
        "resources": ["manifestworks"],
        "verbs": ["execute-as"],
        "resourceNames": [f"system:serviceaccount:{executor[0]}:{executor[1]}"],
    }


def config_map(name: str = "cm1", **content: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}, **content}


def executor(account: tuple[str, str]) -> Object:
    return {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": account[0], "name": account[1]}}}


def spec(*manifests: Object, runs_as: tuple[str, str] | None = None, **more: Any) -> Object:
    named: Object = {} if runs_as is None else {"executor": executor(runs_as)}
    return {"workload": {"manifests": list(manifests) or [config_map()]}, **named, **more}


def work(name: str = "w", content: Object | None = None, namespace: str = "cluster1", **metadata: Any) -> Object:
    kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
    return {**kind, "metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec() if content is None else content}


def replica_set(name: str = "r", content: Object | None = None, *placements: str) -> Object:
    kind = {"apiVersion": REPLICA_SETS.api_version, "kind": REPLICA_SETS.kind, "metadata": {"name": name, "namespace": "apps"}}
    refs = [{"name": placement} for placement in placements or ("everywhere",)]
    return {**kind, "spec": {"manifestWorkTemplate": spec() if content is None else content, "placementRefs": refs}}


@asynccontextmanager
async def serving(options: WorkHubOptions, kind: type[NotingClient] = NotingClient) -> AsyncIterator[Hub]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await server.start()
    hub = Hub(server, kind)
    for name in ("cluster1", "cluster2", "apps"):
        await hub.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    webhooks = Webhooks(hub.own, options, ServingOptions("127.0.0.1", 0))
    await ensure_namespace(hub.admin, options.namespace)
    await apply_all(hub.admin, permissions(options), "test")
    await webhooks.start()
    running = asyncio.create_task(webhooks.run())
    try:
        await install(hub.admin, options, webhooks.endpoint)
        yield hub
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await webhooks.stop()
        await server.stop(grace=0.1)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with serving(WorkHubOptions()) as hub:
        yield hub
