"""What a controller may do to a cluster: the verbs of Kubernetes as a Protocol, in terms of kinds, names and objects.

`KubeClient` is what everything above asks for. Nothing in it says how requests travel: `rest.py` speaks the verbs as HTTP paths and
bodies (over the network in `http.py`, into an embedded server in `embedded/in_process.py`), a wrapper such as a dry run passes them
on (`delegating.py`), and a client that carries only a few kinds answers them from whatever it has. Failures are `errors.KubeError`.

A kind is a `GVR`, and then objects are JSON documents, or a typed kind of `muster.api`, and then they are of that type:
`await client.get(ManagedCluster, "c1")` is a ManagedCluster. An answer that a type cannot hold raises `MalformedObject`. Typed
objects are created and applied; what was read is changed by `patch`, because a type does not know all fields, and therefore
`update` takes documents only. Lists and watches also come undecoded (`pages`, `watch`): informers keep bytes.
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
"""Objects per page, client-go's choice."""

PatchKind = Literal["merge", "json", "strategic"]
FieldValidation = Literal["", "Strict", "Warn", "Ignore"]
"""What a server does about fields that a kind does not have and about fields given twice: refuse the write, warn, or say nothing.
Empty: what it does by itself, which is to warn."""
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(NamedTuple, Generic[T]):
    type: EventType
    raw: bytes
    """The object's JSON, undecoded."""
    kind: Kind[T]

    @property
    def object(self) -> T:
        """Decoded at each call. Of a bookmark only the version is there."""
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
        """Where requests go, for logs and errors."""

    @property
    def gate(self) -> Gate | None:
        """Where all wait who follow the server while it is away; None where the way there sees to that itself."""
        return None

    async def close(self) -> None: ...

    def as_user(self, name: str) -> KubeClient:
        """The same server, acting as somebody else, with the groups the server gives them (a service account's own). Needs the
        permission to impersonate them. It stands on this client's connections, and ends with it."""

    # What holds for kinds in general holds for a GVR; said apart, it does not depend on what the caller does with the answer.
    @overload
    async def get(self, resource: GVR, name: str, namespace: str = "", *, subresource: str = "") -> Object: ...

    @overload
    async def get(self, resource: Kind[T], name: str, namespace: str = "", *, subresource: str = "") -> T: ...

    async def list(
        self, resource: Kind[T], namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = PAGE
    ) -> ObjectList[T]:
        """All of one state of the collection, asked for in pages of `limit`."""

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
        """Page by page, all of one state of the collection. `Expired` when a later page comes too late."""

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
        """Events until the server ends the watch; an ERROR event is raised as the error it carries.

        With `initial_events` the present state comes first, then a bookmark that says so (a WatchList). `opened` is called when
        the server has accepted the watch, which may be long before the first event.
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
        """`name` and `subresource` are for the likes of serviceaccounts/token and pods/eviction."""

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
        """`uid` and `resource_version` are preconditions: `Conflict` when the object is another one by now. Gives the object
        where something still holds it, or a Status."""

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
        """What the server serves of a group version, without subresources. `NotFound` when it has no such group version."""

    async def api_versions(self, group: str) -> builtins.list[str]:
        """The group versions of a group that are served, as `group/version`, the preferred first."""

    async def server_version(self) -> str:
        """The Kubernetes version that the server says it has; empty when it does not say."""

    async def check_health(self) -> None:
        """Raises KubeError with what is wrong when the server is not alive and well."""
