"""A cluster in this process, an applier for it, and a client that writes down what is asked of the cluster."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import NotFound
from muster.runtime.client.rest import JSON, Query
from muster.work.agent.applying import ClusterApplier
from muster.work.agent.interfaces import ManifestOwner
from tests.support.manifests import manifest, resource_of, sight_of

OWNER = ManifestOwner("hash-work1", "11111111-1111-1111-1111-111111111111")
OTHER = ManifestOwner("hash-work2", "22222222-2222-2222-2222-222222222222")


class Recorder(InProcessClient):
    """Notes each request as `VERB path`; `before` may look at it, or raise in the server's place."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.asked: list[str] = []
        self.bodies: list[Any] = []

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.asked.append(f"{method} {path.rpartition('/')[2]}")
        self.bodies.append(orjson.loads(body) if body else None)
        await self.before(method, path)
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    async def before(self, method: str, path: str) -> None:
        return None

    def taken(self) -> list[str]:
        """What was asked since the last time."""
        asked, self.asked, self.bodies = self.asked, [], []
        return asked


@pytest.fixture
def client(server: ApiServer) -> Recorder:
    return Recorder(server.client(server.clusters["default"]))


@pytest.fixture
def cluster(client: Recorder) -> Cluster:
    return Cluster(client)


async def live(client: KubeClient, document: Object) -> Object:
    metadata = document["metadata"]
    resource = resource_of(document)
    return await client.get(resource, metadata["name"], metadata.get("namespace", "default") if resource.namespaced else "")


class Cluster:
    """Applies documents by what is in the cluster, and says what each took."""

    def __init__(self, client: Recorder) -> None:
        self.client = client
        self.applier = ClusterApplier(client)

    async def apply(self, document: Object, *, owner: ManifestOwner = OWNER, **options: Any) -> tuple[Object, list[str]]:
        seen = await self.live(document)
        self.client.taken()
        result = await self.applier.apply(manifest(document, **options), owner, sight_of(seen))
        assert result.document is not None
        return result.document, self.client.taken()

    async def live(self, document: Object) -> Object | None:
        try:
            return await live(self.client, document)
        except NotFound:
            return None

    async def edit(self, document: Object, **changes: Any) -> Object:
        """What somebody else does to the object: a merge patch."""
        ref = manifest(document).ref
        return await self.client.patch(ref.resource, ref.name, changes, ref.namespace, manager="somebody")

    def restarted(self) -> Cluster:
        """As a new process sees it."""
        return Cluster(self.client)
