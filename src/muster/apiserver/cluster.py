"""One logical cluster: its slice of the store, its served resources, its identity and its rules.

A cluster is cheap until it is used: everything beyond its name is made on first access, and what is the same for all clusters
(built-in rows, bootstrap objects, compiled schemas) is shared. It knows none of the layers above it: what they keep for a cluster
they add to it as a part, and find again by its class.
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
    """Whether the store took the last write; shared by all clusters of a process and shown by /readyz."""

    __slots__ = ("problem",)

    def __init__(self) -> None:
        self.problem: str | None = None


class Cluster:
    """See the module docstring. `prefix` is the URL prefix clients use ("" for the default cluster on plain paths)."""

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
        """Who may do what: `access` where the cluster judges itself, or the word of whoever has judged before."""
        self.addresses: ServiceAllocator
        self.webhook_route: WebhookRoute = NO_ROUTE
        self._parts: dict[type[Any], Any] = {}
        self.part: FindPart = self._parts.__getitem__
        """What a layer above keeps for this cluster, by its class: its access, admission chain, aggregator, open requests."""
        self.removed = False
        """Once true for ever: a cluster made anew under the name is another object, and nothing begun here may write to it."""
        self.node: Node | None = None
        """Who runs this cluster's pods, if anybody does."""

    async def caught_up(self) -> bool:
        """Whether this server had not seen yet what others on the same database did; if so, it has when this returns, and what was
        refused for it is worth asking again. Raises Unavailable if nobody can tell."""
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
        """An object decoded once and shared; callers must not change it."""
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
