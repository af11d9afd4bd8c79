"""A managed cluster in this process, a client of it that counts and can be disturbed, and an observer at work."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.cache.dynamic import DynamicCache
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.client.errors import KubeError, StatusError
from muster.runtime.client.rest import JSON, Query
from tests.support.fake_clock import FakeClock

RBAC = "rbac.authorization.k8s.io/v1"
CLUSTER_ROLES = GVR(RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_BINDINGS = GVR(RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = GVR(RBAC, "roles", "Role")
BINDINGS = GVR(RBAC, "rolebindings", "RoleBinding")
WORKER = "worker"
WIDGETS = GVR("example.com/v1", "widgets", "Widget")


class Disturbed(InProcessClient):
    """Notes what is asked, and fails streams as a test wishes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reads: list[str] = []
        self.watches: list[tuple[str, Query]] = []
        self.refusals: list[KubeError] = []
        """Each ends one attempt to watch before it begins."""
        self._cut = asyncio.Event()
        self._ending: KubeError | None = None

    def cut(self, error: KubeError | None = None) -> None:
        """End every open watch: as if the connection were closed, or with an error."""
        self._ending = error
        self._cut.set()
        self._cut = asyncio.Event()

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if method == "GET":
            self.reads.append(path)
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self.watches.append((path, query))
        if self.refusals:
            raise self.refusals.pop(0)
        cut = asyncio.ensure_future(self._cut.wait())
        lines = super().lines(path, query, timeout, opened)
        line = asyncio.ensure_future(anext(lines))
        try:
            while True:
                await asyncio.wait([line, cut], return_when=asyncio.FIRST_COMPLETED)
                if not line.done():
                    if self._ending is not None:
                        raise self._ending
                    return
                if isinstance(line.exception(), StopAsyncIteration):
                    return
                yield line.result()
                line = asyncio.ensure_future(anext(lines))
        finally:
            cut.cancel()
            line.cancel()
            await asyncio.gather(line, return_exceptions=True)
            await lines.aclose()


@pytest.fixture
def admin(server: ApiServer) -> InProcessClient:
    return InProcessClient(server.client(server.clusters["default"]))


@pytest.fixture
def client(server: ApiServer) -> Disturbed:
    return Disturbed(server.client(server.clusters["default"]))


@pytest.fixture
def limited(server: ApiServer) -> Disturbed:
    """Somebody who may do nothing but what a test grants to WORKER."""
    user = UserInfo(WORKER, groups=("system:authenticated",))
    return Disturbed(server.client(server.clusters["default"], user))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def permit(admin: InProcessClient, verbs: list[str], resource: str, namespace: str = "") -> None:
    name = f"{resource}-{namespace or 'everywhere'}"
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": verbs}]
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    kind = "Role" if namespace else "ClusterRole"
    subject = {"kind": "User", "name": WORKER, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"apiVersion": RBAC, "kind": kind, "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": RBAC,
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [subject],
    }
    await admin.create(ROLES if namespace else CLUSTER_ROLES, role)
    await admin.create(BINDINGS if namespace else CLUSTER_BINDINGS, binding)


async def namespaces(admin: InProcessClient, *names: str) -> None:
    for name in names:
        await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@dataclass
class Scene:
    """An observer at work and what it told."""

    observer: DynamicCache
    told: list[str] = field(default_factory=list)

    async def known(self, *refs: ObjectRef) -> None:
        await self.observer.settle(refs, 10)


@asynccontextmanager
async def observing(client: KubeClient, **options: Any) -> AsyncIterator[Scene]:
    scene = Scene(DynamicCache(client, **options))
    scene.observer.on_change(scene.told.append)
    task = asyncio.create_task(scene.observer.run())
    try:
        yield scene
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def definition() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def until_made(admin: InProcessClient, resource: GVR, document: Object) -> None:
    """Kinds take a moment to be served, and another to be gone."""
    async with asyncio.timeout(10):
        while True:
            try:
                await admin.create(resource, dict(document))
                return
            except StatusError:
                await asyncio.sleep(0.01)
