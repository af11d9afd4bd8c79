"""The seam between the broker and where objects are kept, one `Service` per data type, as OCM's enhancement 141 has it.

A service gives the objects of a cluster as events, tells of changes, and carries out what agents ask for. It takes names of
clusters, never namespaces. The broker knows nothing of what is behind it: a Kubernetes API with informers, or a store in the same
process.

A change is told by a `ResourceChange`, which becomes an event when somebody wants it: whoever listens is looked up first, and for
all who do it is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from muster.machinery.authentication import UserInfo
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import Row
from muster.transport.contract.types import Action


class ResourceChange(Protocol):
    """An object that came, changed or went."""

    @property
    def cluster(self) -> str: ...

    @property
    def resource_id(self) -> str: ...

    @property
    def action(self) -> Action: ...

    def event(self) -> CloudEvent:
        """Made at each call."""


EventHandler = Callable[[ResourceChange], None]
"""Must be quick."""


class Caller(Protocol):
    """Who publishes, as far as the credential proves it."""

    @property
    def user(self) -> UserInfo: ...

    @property
    def cluster(self) -> str:
        """The one it may speak for in this call."""

    @property
    def is_agent(self) -> bool:
        """False for a bootstrap identity."""


class ObjectVersion(NamedTuple):
    """What resyncs compare of an object."""

    resource_id: str
    version: int
    """As the row counts; 0 where there is none."""
    deleting: bool = False


class Service(Protocol):
    @property
    def row(self) -> Row: ...

    @property
    def synced(self) -> bool:
        """Whether everything is known: until then nothing can be said of what is not there."""

    @property
    def served(self) -> bool:
        """False while wherever objects are kept there is no such kind: then nothing will be known soon."""

    def get(self, resource_id: str) -> CloudEvent:
        """As an answer to a resync. Raises NotFound."""

    def list(self, cluster: str) -> list[CloudEvent]:
        """As answers to a resync."""

    def versions(self, cluster: str) -> Iterable[ObjectVersion]:
        """Of what `list` gives, without making events of it."""

    async def live_versions(self, cluster: str, caller: Caller) -> Iterable[ObjectVersion]:
        """As `versions`, but asked of whoever keeps the objects: what is known here may be older than what another server has told
        already. Raises KubeError."""

    async def live_statuses(self, cluster: str, caller: Caller) -> Mapping[str, bytes]:
        """By resource id what agents have reported of the cluster's objects, as JSON, asked of whoever keeps the objects: it is not
        kept here. Of a row whose objects are sent with their status, nothing. Raises KubeError."""

    def tombstone(self, cluster: str, resource_id: str) -> CloudEvent | None:
        """The deletion, as an answer to a resync, of an object of the cluster that was seen to go, with its name and version; None
        where nobody knows."""

    async def handle_status_update(self, event: CloudEvent, caller: Caller) -> CloudEvent | None:
        """Carry out what an agent asks for. What comes back is for whoever asked, and goes to no other stream: the answer to a
        TokenRequest. Raises KubeError, and InvalidEvent for what cannot be understood. The broker has authorized the caller for its
        cluster; the service sees to it that the objects it writes are that cluster's."""

    def undeliverable(self, resource_id: str) -> None:
        """An object is larger than whoever listens can receive, and was not sent. Must be quick."""

    def register_handler(self, handler: EventHandler) -> None:
        """Told of every change from now on."""

    async def run(self) -> None: ...
