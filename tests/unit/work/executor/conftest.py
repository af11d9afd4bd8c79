"""A gate at work before a server in this process, and manifests to ask it about."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from muster.api.work.v1 import ExecutorServiceAccount, ManifestResourceMeta
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR, Object
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.errors import KubeError, NotFound
from muster.runtime.client.rest import JSON, Query
from muster.work.agent.executor import ExecutorOptions
from muster.work.agent.interfaces import InvalidManifest, Manifest
from tests.support.gates import LoneGate
from tests.support.manifests import manifest as planned

FULL = ("create", "update", "patch", "get", "delete")
GROUP = "rbac.authorization.k8s.io"
KINDS = {
    resource.plural: resource for resource in (CONFIG_MAPS, NAMESPACES, ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
}
E = ExecutorServiceAccount(namespace="sa-ns", name="exec1")
USER = "system:serviceaccount:sa-ns:exec1"


class Recording(InProcessClient):
    """Notes what is asked; `failing` is raised by reviews, `answer` given instead of the server's."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.reviews: list[dict[str, Any]] = []
        self.writes: list[tuple[str, str]] = []
        self.failing: KubeError | None = None
        self.answer: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda spec: None

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if path.endswith("/subjectaccessreviews") and body is not None:
            spec = orjson.loads(body)["spec"]
            self.reviews.append(spec)
            if self.failing is not None:
                raise self.failing
            answer = self.answer(spec)
            if answer is not None:
                return orjson.dumps({"status": answer})
        elif method != "GET":
            self.writes.append((method, path))
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    def asked(self) -> Counter[str]:
        return Counter(review["resourceAttributes"]["verb"] for review in self.reviews)


class Stage:
    """The managed cluster as its administrator sees it, and gates before it."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.cluster = server.clusters["default"]
        self.admin = InProcessClient(server.client(self.cluster))
        self.recording = Recording(server.client(self.cluster))
        self.tasks: list[asyncio.Task[None]] = []
        self._numbers = 0

    def gate(self, client: KubeClient | None = None, **options: Any) -> LoneGate:
        made = LoneGate(client or self.recording, ExecutorOptions(**options))
        self.tasks.append(asyncio.create_task(made.run()))
        return made

    def as_agent(self, name: str) -> Recording:
        """A client of an agent with rights of its own, none to begin with."""
        return Recording(self.server.client(self.cluster, UserInfo(name, groups=("system:authenticated",))))

    async def namespace(self, *names: str) -> None:
        for name in names:
            await self.admin.create(NAMESPACES, {"metadata": {"name": name}})

    async def role(self, namespace: str, name: str, *rules: Object) -> None:
        kind, resource = ("Role", ROLES) if namespace else ("ClusterRole", CLUSTER_ROLES)
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        await self.put(resource, {"kind": kind, "metadata": metadata, "rules": list(rules)})

    async def bind(self, namespace: str, role: str, *subjects: Object, name: str = "", kind: str = "") -> str:
        resource = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
        kind = kind or ("Role" if namespace else "ClusterRole")
        name = name or f"b-{role}".replace(":", "-")
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        ref = {"apiGroup": GROUP, "kind": kind, "name": role}
        await self.put(resource, {"metadata": metadata, "roleRef": ref, "subjects": list(subjects or (account(),))})
        return name

    async def grant(self, namespace: str, *rules: Object, to: Object | None = None, name: str = "grant") -> None:
        await self.role(namespace, name, *rules)
        await self.bind(namespace, name, to or account(), name=name)

    async def revoke(self, namespace: str, name: str = "grant") -> None:
        await self.admin.delete(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, name, namespace)

    async def put(self, resource: GVR, obj: Object) -> None:
        metadata = obj["metadata"]
        try:
            live = await self.admin.get(resource, metadata["name"], metadata.get("namespace", ""))
        except NotFound:
            await self.admin.create(resource, obj)
            return
        metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
        await self.admin.update(resource, obj)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    made = Stage(server)
    await made.namespace("app", "other")
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
    await server.stop(grace=0.1)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No change is so fresh that a disagreement with the server could be a delay."""
    monkeypatch.setattr("muster.runtime.auth.subject_access.DISAGREEMENT_WINDOW", 0.0)


def account(name: str = "exec1", namespace: str = "sa-ns") -> Object:
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def rule(verbs: tuple[str, ...] = FULL, resources: str = "configmaps", api_group: str = "", names: tuple[str, ...] = ()) -> Object:
    made: Object = {"verbs": list(verbs), "apiGroups": [api_group], "resources": resources.split(",")}
    if names:
        made["resourceNames"] = list(names)
    return made


def manifest(
    name: str,
    namespace: str = "app",
    plural: str = "configmaps",
    *,
    strategy: str = "Update",
    owned: bool = True,
    **fields: Any,
) -> Manifest:
    resource = KINDS[plural]
    metadata = {"name": name, **({"namespace": namespace} if resource.namespaced else {})}
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
    return planned(document, owned=owned, type=strategy)


def several(*manifests: Manifest) -> list[Manifest]:
    """With their places in the work as ordinals."""
    return [replace(one, ordinal=ordinal) for ordinal, one in enumerate(manifests)]


def invalid_manifest(ordinal: int) -> InvalidManifest:
    meta = ManifestResourceMeta(ordinal=ordinal, kind="Unknown", name="x")
    return InvalidManifest(meta, 'the server doesn\'t have a resource type "Unknown"', unserved=True)
