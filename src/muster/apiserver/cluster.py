"""One logical cluster: its part of the store, its served resources, its identity and its access rules.

A cluster costs little until it is used: everything beyond its name is created on first access, and what is equal in all clusters
(built-in rows, bootstrap objects, compiled schemas) is shared. It knows none of the layers above it: they add their per-cluster
state as a part, which is found by its class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from muster.apiserver.access_rules import AccessRules
from muster.apiserver.nodes import Node
from muster.apiserver.objects import object_key, shared
from muster.apiserver.registry.strategy import ServiceAllocator
from muster.apiserver.registry.table import ResourceTable
from muster.apiserver.webhooks import NO_ROUTE, WebhookRoute
from muster.apiserver.worker import Worker
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.store.api import Entry, Store

Clock = Callable[[], datetime]
Part = TypeVar("Part")


def utc_now() -> datetime:
    return datetime.now(UTC)


class FindPart(Protocol):
    def __call__(self, kind: type[Part], /) -> Part: ...


class StoreHealth:
    """Whether the last write to the store succeeded; shared by all clusters of a process and shown by /readyz."""

    __slots__ = ("problem",)

    def __init__(self) -> None:
        self.problem: str | None = None


class Cluster:
    """A logical cluster. `prefix` is its URL prefix ("" for the default cluster on plain paths)."""

    def __init__(
        self,
        name: str,
        prefix: str,
        store: Store,
        resources: ResourceTable,
        clock: Clock = utc_now,
        health: StoreHealth | None = None,
        worker: Worker | None = None,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.store = store
        self.clock = clock
        self.health = health or StoreHealth()
        self.worker = worker or Worker()
        self.resources = resources
        self.rules: AccessRules
        """Authentication and authorization: `auth.access.Access`, or `PreauthorizedRules` if the caller has decided."""
        self.addresses: ServiceAllocator
        self.webhook_route: WebhookRoute = NO_ROUTE
        self._parts: dict[type[Any], Any] = {}
        self.part: FindPart = self._parts.__getitem__
        """The state of a higher layer for this cluster, by class: access, admission chain, aggregator, open requests."""
        self.removed = False
        """Never reset: a cluster created again under the name is another object, and requests to this one must not write to it."""
        self.node: Node | None = None
        """The node runtime of this cluster, if it has one."""

    async def catch_up(self) -> bool:
        """Wait until all writes of other servers on the same database are visible. Returns whether there were any, so that a failed
        check should be repeated. Raises Unavailable if the database cannot be read."""
        before = self.store.revision
        await self.store.synced()
        return self.store.revision > before

    def add(self, part: object) -> None:
        self._parts[type(part)] = part

    def now(self) -> str:
        return format_time(self.clock())

    def entry(self, storage: str, key: str) -> Entry | None:
        return self.store.get(self.name, storage, key)

    def read(self, storage: str, key: str) -> Object | None:
        """The decoded object, which is shared: callers must not change it."""
        entry = self.store.get(self.name, storage, key)
        return None if entry is None else shared(entry)

    def scan(self, storage: str, namespace: str = "") -> Iterator[Object]:
        prefix = namespace + "/" if namespace else ""
        for entry in self.store.list(self.name, storage, prefix):
            yield shared(entry)

    def namespace_exists(self, name: str) -> bool:
        return self.store.get(self.name, "/namespaces", name) is not None

    def secret(self, namespace: str, name: str) -> Object | None:
        return self.read("/secrets", object_key(namespace, name))
