"""`KubeClient`: the verbs of the Kubernetes API as a Protocol, in terms of kinds, names and objects.

All code above depends on this Protocol only. It does not define how requests are sent: `rest.py` maps the verbs to HTTP paths and
bodies (sent over the network by `http.py`, to an embedded server by `embedded/in_process.py`), a wrapper such as a dry run
delegates to another client (`delegating.py`), and a client for a few kinds only may answer from other sources. Failures are
`errors.KubeError`.

A kind is a `GVR`, whose objects are JSON documents, or a typed kind of `muster.api`, whose objects are of that type: `await
client.get(ManagedCluster, "c1")` is a ManagedCluster. A response that does not fit the type raises `MalformedObject`. Typed objects
are created and applied; existing objects are changed by `patch`, because a type does not have all fields, and therefore `update`
takes only documents. Lists and watches are also available undecoded (`pages`, `watch`), for informers.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, overload

from muster.machinery.objects import GVR, Object
from muster.runtime.client.gate import Gate
from muster.runtime.client.typed import Kind, WritableKind

T = TypeVar("T")

PAGE = 500
"""Objects per page, as client-go's default."""

PatchKind = Literal["merge", "json", "strategic"]
FieldValidation = Literal["", "Strict", "Warn", "Ignore"]
"""How a server handles unknown and duplicate fields: refuse the write, warn, or ignore them. Empty: the server's default, which is
to warn.
"""
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(NamedTuple, Generic[T]):
    type: EventType
    raw: bytes
    """The object's JSON, undecoded."""
    kind: Kind[T]

    @property
    def object(self) -> T:
        """Decodes at each call. A bookmark has only the version."""
        return self.kind.decode(self.raw)


class Page(NamedTuple):
    items: list[bytes]
    resource_version: str
    continuation: str


class ObjectList(NamedTuple, Generic[T]):
    items: list[T]
    resource_version: str


class KubeClient(Protocol):
    """The verbs. In all of them an empty `namespace` means all namespaces, or that the kind has none."""

    @property
    def server(self) -> str:
        """The server's address, for logs and errors."""

    @property
    def gate(self) -> Gate | None:
        """The gate at which all watches of an unreachable server wait; None if the client handles outages itself."""
        return None

    async def close(self) -> None: ...

    def as_user(self, name: str) -> KubeClient:
        """A client for the same server that impersonates a user, with the groups that the server adds (for a service account).
        Needs the permission to impersonate. It uses this client's connections, and is closed with it."""

    # A GVR is a Kind as well; the separate overload makes the result independent of the expected type.
    @overload
    async def get(self, resource: GVR, name: str, namespace: str = "", *, subresource: str = "") -> Object: ...

    @overload
    async def get(self, resource: Kind[T], name: str, namespace: str = "", *, subresource: str = "") -> T: ...

    async def list(
        self, resource: Kind[T], namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = PAGE
    ) -> ObjectList[T]:
        """The whole collection at one resourceVersion, read in pages of `limit`."""

    def pages(
        self,
        resource: Kind[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        resource_version: str = "",
    ) -> AsyncIterator[Page]:
        """Page by page, the whole collection at one resourceVersion. `Expired` if a later page is requested too late."""

    def watch(
        self,
        resource: Kind[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        timeout: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Events until the server ends the watch; an ERROR event is raised as its error.

        With `initial_events` the current objects come first, then a bookmark that marks their end (a WatchList). `opened` is called
        when the server has accepted the watch, which may be long before the first event.
        """

    async def create(
        self,
        resource: WritableKind[T],
        obj: T,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T:
        """`name` and `subresource` are for subresources such as serviceaccounts/token and pods/eviction."""

    async def update(
        self,
        resource: Kind[T],
        obj: Object,
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T: ...

    async def patch(
        self,
        resource: Kind[T],
        name: str,
        patch: object,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T: ...

    async def apply(
        self,
        resource: WritableKind[T],
        obj: T | Object,
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T: ...

    async def delete(
        self,
        resource: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """`uid` and `resource_version` are preconditions: `Conflict` if the object differs by now. Returns the object if a
        finalizer still holds it, or a Status."""

    async def delete_collection(
        self,
        resource: Kind[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: str = "",
        dry_run: bool = False,
    ) -> Object: ...

    async def api_resources(self, api_version: str) -> builtins.list[GVR]:
        """The resources of a group version, without subresources. `NotFound` if the server does not serve the group version."""

    async def api_versions(self, group: str) -> builtins.list[str]:
        """The served group versions of a group, as `group/version`, the preferred one first."""

    async def server_version(self) -> str:
        """The Kubernetes version of the server; empty if it does not report one."""

    async def check_health(self) -> None:
        """Raises KubeError with the reason if the server is not healthy."""
