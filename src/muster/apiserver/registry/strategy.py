"""How objects of one row behave: what handlers, which are the same for all kinds, ask of the kind they handle.

As in kube-apiserver, where a registry's store is generic and a kind brings its rest strategy. There are two implementations:
built-in kinds (`builtin.strategy`: types of Go structs, and hooks of single kinds) and versions of CustomResourceDefinitions
(`crd.compiled`: everything follows from a schema). Handlers ask a row whether it `is_custom` only where the real server words an
answer differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from muster.kube.fielderrors import FieldError
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object


class ServiceAllocator(Protocol):
    """Where a cluster's Services get their addresses and node ports from. `owner` is the service's namespace/name: what it already
    holds is given to it again. "" and 0 ask for any free one. A LookupError says in Kubernetes' words why a wish is refused."""

    def cluster_ip(self, wanted: str, owner: str) -> str: ...
    def node_port(self, wanted: int, owner: str) -> int: ...


class HookContext(Protocol):
    """What a hook may ask of the request it runs in."""

    @property
    def verb(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def username(self) -> str: ...
    @property
    def user(self) -> UserInfo: ...
    @property
    def addresses(self) -> ServiceAllocator: ...
    @property
    def namespace(self) -> str: ...
    @property
    def pods_on_loopback(self) -> bool:
        """Whether this cluster's pods listen on the loopback interface, so that endpoints may lie there."""

    def now(self) -> str:
        """The server's clock as RFC 3339 seconds."""

    def warn(self, text: str) -> None:
        """Tell the client something with the answer."""

    def read(self, resource: str, key: str) -> Object | None:
        """Another object of the same cluster, e.g. read("/namespaces", "default")."""


WorkerStep = Callable[[], None]
Prepare = Callable[[HookContext, Object, Object | None], WorkerStep | None]
"""Adjust the new object before validation (old is None on create): reset fields, allocate, normalise. Runs on the loop, where the
server's state may be looked at; what then follows from the object alone and grows with it is the rest, which runs beside the loop
where the object is large."""
MarkDeleted = Callable[[HookContext, Object], None]
"""Adjust an object that a delete request marks. Only where deletion is a process of its own (namespaces, definitions): then it has
no grace period and no generation."""
Validate = Callable[[HookContext, Object, Object | None], list[FieldError]]
"""What is wrong with an object. Runs beside the loop where the object is large, and so depends on its arguments alone."""
Allocate = Callable[[HookContext, Object], list[FieldError]]
"""What a valid object asks of the server and cannot have."""


class Strategy(Protocol):
    @property
    def is_custom(self) -> bool: ...

    @property
    def patch_types(self) -> Sequence[str]:
        """Media types of the patches it takes."""

    @property
    def is_shown_as_stored(self) -> bool:
        """Whether clients see objects byte for byte as they are stored."""

    @property
    def needs_webhook(self) -> bool:
        """Whether showing stored objects may take a conversion webhook."""

    def decode(self, obj: Object) -> tuple[Object, list[str]]:
        """A parsed object in its normal form, and the paths of fields that its type does not know. Raises DecodeError."""

    def default(self, obj: Object) -> None:
        """Fill defaults in place; idempotent."""

    def empty(self) -> Object:
        """The object before it exists, as owners of fields see it; callers must not change it."""

    def prepare(self, ctx: HookContext, obj: Object, old: Object | None) -> WorkerStep | None:
        """See `Prepare`."""

    def validate(self, ctx: HookContext, obj: Object, old: Object | None, valid: bool) -> list[FieldError]:
        """See `Validate`. `valid` says that nothing is wrong so far: then there may be warnings."""

    def allocate(self, ctx: HookContext, obj: Object) -> list[FieldError]:
        """See `Allocate`."""

    def mark_deleted(self, ctx: HookContext, obj: Object) -> bool:
        """See `MarkDeleted`; whether deletion is a process of its own."""

    def present(self, stored: bytes) -> bytes | None:
        """Stored bytes in the row's version; None if that takes a webhook."""

    async def from_storage(self, objects: Sequence[Object]) -> list[Object]:
        """Stored objects, which may be changed, in the row's version, in order."""

    async def to_storage(self, obj: Object) -> Object:
        """An object of the row's version in the storage version."""
