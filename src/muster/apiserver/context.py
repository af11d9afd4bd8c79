"""The state of one request in the pipeline: user, attributes, cluster, query, and warnings for the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.apiserver.cluster import Cluster
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.registry.strategy import ServiceAllocator
from muster.apiserver.request import Query
from muster.apiserver.worker import LARGE, Result
from muster.http import Request
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import Object
from muster.store.api import Entry

_MAX_WARNINGS = 4096
"""More warnings than fit into the headers of an answer."""


class Context:
    """The state of a request; also the `HookContext` of strategies."""

    __slots__ = ("_large", "_warned", "accept", "attributes", "cluster", "query", "request", "tail", "user", "warnings")

    def __init__(
        self, cluster: Cluster, request: Request, user: UserInfo, attributes: AccessAttributes, query: Query, tail: str = ""
    ) -> None:
        self.cluster = cluster
        self.request = request
        self.user = user
        self.attributes = attributes
        self.query = query
        self.tail = tail
        self.accept = request.headers.get("accept") or ""
        self.warnings: list[str] = []
        self._warned: set[str] | None = None
        self._large = False

    @property
    def verb(self) -> str:
        return self.attributes.verb

    @property
    def subresource(self) -> str:
        return self.attributes.subresource

    @property
    def username(self) -> str:
        return self.user.name

    @property
    def namespace(self) -> str:
        return self.attributes.namespace

    @property
    def addresses(self) -> ServiceAllocator:
        return self.cluster.addresses

    @property
    def pods_on_loopback(self) -> bool:
        return self.cluster.node is not None

    def namespace_of(self, resource: ServedResource) -> str:
        """The namespace of objects of the resource; "" for cluster-scoped ones, even if the path has one, as that of a Namespace
        does."""
        return self.attributes.namespace if resource.namespaced else ""

    def is_large(self, entry: Entry | None = None) -> bool:
        """Whether the request, or the stored object it refers to, is too large to be processed on the event loop."""
        if not self._large and len(self.request.body) + (0 if entry is None else len(entry.value)) > LARGE:
            self._large = True
        return self._large

    async def run_in_worker(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a pure function, computed in the worker thread."""
        return await self.cluster.worker.run(self.user.name, function, *arguments)

    def now(self) -> str:
        return self.cluster.now()

    def read(self, resource: str, key: str) -> Object | None:
        return self.cluster.read(resource, key)

    def scan(self, resource: str, namespace: str) -> list[Object]:
        """The objects of a namespace, which are shared: callers must not change them."""
        return list(self.cluster.scan(resource, namespace))

    def warn(self, text: str) -> None:
        if self._warned is None:
            self._warned = set()
        if text not in self._warned and len(self.warnings) < _MAX_WARNINGS:
            self._warned.add(text)
            self.warnings.append(text)
