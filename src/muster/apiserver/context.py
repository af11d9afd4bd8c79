"""One request on its way through the pipeline: who asks, for what, in which cluster, and what it gathers for the answer."""

from __future__ import annotations

from muster.apiserver.attributes import Attributes
from muster.apiserver.auth.identity import User
from muster.apiserver.cluster import Cluster
from muster.apiserver.registry.resource import Addresses, Object, Resource
from muster.apiserver.request import Query
from muster.http import Request


class Context:
    """Handed from stage to stage; implements what registry hooks may ask (`HookContext`)."""

    __slots__ = ("attributes", "cluster", "query", "request", "tail", "user", "warnings")

    def __init__(
        self, cluster: Cluster, request: Request, user: User, attributes: Attributes, query: Query, tail: str = ""
    ) -> None:
        self.cluster = cluster
        self.request = request
        self.user = user
        self.attributes = attributes
        self.query = query
        self.tail = tail
        self.warnings: list[str] = []

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
    def addresses(self) -> Addresses:
        return self.cluster.addresses

    @property
    def pods_on_loopback(self) -> bool:
        return self.cluster.node is not None

    @property
    def accept(self) -> str:
        return self.request.headers.get("accept") or ""

    def namespace_of(self, resource: Resource) -> str:
        """The namespace an object lives in; a namespace's own path names one without living in it."""
        return self.attributes.namespace if resource.namespaced else ""

    def now(self) -> str:
        return self.cluster.now()

    def read(self, resource: str, key: str) -> Object | None:
        return self.cluster.read(resource, key)

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
