"""The interface between the broker and the storage of objects: one `Service` per data type, as in OCM's enhancement 141.

A service returns the objects of a cluster as events, reports changes, and executes agents' requests. Its parameters are names of
clusters, never namespaces. The broker does not know its storage: a Kubernetes API with informers, or a store in the same process.

A change is reported as a `ResourceChange`, which becomes an event when needed: subscribers are looked up first, and it is encoded
once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from muster.machinery.authentication import UserInfo
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import Row
from muster.transport.contract.types import Action


class ResourceChange(Protocol):
    """An object that was added, changed or deleted."""

    @property
    def cluster(self) -> str: ...

    @property
    def resource_id(self) -> str: ...

    @property
    def action(self) -> Action: ...

    def event(self) -> CloudEvent:
        """Encoded at each call."""


EventHandler = Callable[[ResourceChange], None]
"""Must be quick."""


class Caller(Protocol):
    """The publisher, as proven by its credential."""

    @property
    def user(self) -> UserInfo: ...

    @property
    def cluster(self) -> str:
        """The cluster that it may act for in this call."""

    @property
    def is_agent(self) -> bool:
        """False for a bootstrap identity."""


class ObjectVersion(NamedTuple):
    """The version of an object for resyncs."""

    resource_id: str
    version: int
    """By the row's counting; 0 if there is none."""
    deleting: bool = False


class Service(Protocol):
    @property
    def row(self) -> Row: ...

    @property
    def synced(self) -> bool:
        """Whether all objects are known: until then a missing object means nothing."""

    @property
    def served(self) -> bool:
        """False while the storage does not have the kind: then `synced` may never be true."""

    def get(self, resource_id: str) -> CloudEvent:
        """As an answer to a resync. Raises NotFound."""

    def list(self, cluster: str) -> list[CloudEvent]:
        """As answers to a resync."""

    def versions(self, cluster: str) -> Iterable[ObjectVersion]:
        """The versions of the objects of `list`, without encoding them."""

    async def live_versions(self, cluster: str, caller: Caller) -> Iterable[ObjectVersion]:
        """As `versions`, but read from the storage: the cache may be older than what another server has sent already. Raises
        KubeError."""

    async def live_statuses(self, cluster: str, caller: Caller) -> Mapping[str, bytes]:
        """By resource id the statuses that agents have reported for the cluster's objects, as JSON, read from the storage, since
        they are not cached. Empty for a row whose objects are sent with their status. Raises KubeError."""

    def tombstone(self, cluster: str, resource_id: str) -> CloudEvent | None:
        """The deletion, as an answer to a resync, of a cluster's object whose deletion was seen, with its name and version; None if
        that is not known."""

    async def handle_status_update(self, event: CloudEvent, caller: Caller) -> CloudEvent | None:
        """Execute an agent's request. The result is sent to the caller only: the response to a TokenRequest. Raises KubeError, and
        InvalidEvent for undecodable events. The broker has authorized the caller for its cluster; the service must check that the
        objects it writes are that cluster's."""

    def undeliverable(self, resource_id: str) -> None:
        """An object is larger than its subscriber can receive, and was not sent. Must be quick."""

    def register_handler(self, handler: EventHandler) -> None:
        """The handler is called with every change from now on."""

    async def run(self) -> None: ...
