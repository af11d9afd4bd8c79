"""The strategy of a served resource: how its objects behave. Handlers are the same for all kinds and call the strategy.

As in kube-apiserver, where the store of a registry is generic and each kind has its rest strategies
(`k8s.io/apiserver/pkg/registry/rest`). There are two implementations: built-in kinds (`builtin.strategy`: Go struct types, and
hooks of single kinds) and versions of CRDs (`crd.compiled`: everything follows from the schema). Handlers check `is_custom` of a
row only where kube-apiserver words an answer differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from muster.kube.fielderrors import FieldError
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object


class ServiceAllocator(Protocol):
    """Allocates addresses and node ports of Services. `owner` is the namespace/name of the Service, which may request again what it
    has. "" and 0 request any free one. Raises LookupError with Kubernetes' message if a request cannot be fulfilled."""

    def cluster_ip(self, requested: str, owner: str) -> str: ...
    def node_port(self, requested: int, owner: str) -> int: ...


class HookContext(Protocol):
    """What a hook may read from its request."""

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
        """Whether pods of this cluster listen on the loopback interface, so that endpoints may have such addresses."""

    def now(self) -> str:
        """The present time in RFC 3339."""

    def warn(self, text: str) -> None:
        """Add a warning to the answer."""

    def read(self, resource: str, key: str) -> Object | None:
        """Another object of the same cluster, e.g. read("/namespaces", "default")."""


WorkerStep = Callable[[], None]
Prepare = Callable[[HookContext, Object, Object | None], WorkerStep | None]
"""Prepare the new object before validation (old is None on create): reset fields, allocate, normalize (PrepareForCreate,
PrepareForUpdate). Runs on the event loop, so it may read the state of the server. It may return a step that depends only on the
object and whose cost grows with it; that step runs in the worker thread if the object is large."""
MarkDeleted = Callable[[HookContext, Object], None]
"""Change an object that is being marked as deleted. Only for kinds whose deletion a controller completes (namespaces, CRDs): then
it has no grace period, and the generation does not change."""
Validate = Callable[[HookContext, Object, Object | None], list[FieldError]]
"""The validation errors of an object. Runs in the worker thread if the object is large, so it may only depend on its arguments."""
Allocate = Callable[[HookContext, Object], list[FieldError]]
"""Allocate what a valid object requests by value; return errors for what is not available."""


class Strategy(Protocol):
    @property
    def is_custom(self) -> bool: ...

    @property
    def patch_types(self) -> Sequence[str]:
        """Media types of supported patches."""

    @property
    def is_shown_as_stored(self) -> bool:
        """Whether stored bytes are answered without conversion."""

    @property
    def needs_webhook(self) -> bool:
        """Whether reading stored objects may need a conversion webhook."""

    def decode(self, obj: Object) -> tuple[Object, list[str]]:
        """(object in its normal form, paths of unknown fields). Raises DecodeError."""

    def default(self, obj: Object) -> None:
        """Set defaults in place; idempotent."""

    def empty(self) -> Object:
        """The empty object with which tracking of managed fields starts; callers must not change it."""

    def prepare(self, ctx: HookContext, obj: Object, old: Object | None) -> WorkerStep | None:
        """See `Prepare`."""

    def validate(self, ctx: HookContext, obj: Object, old: Object | None, valid: bool) -> list[FieldError]:
        """See `Validate`. `valid`: whether there are no errors so far; only then warnings are added."""

    def allocate(self, ctx: HookContext, obj: Object) -> list[FieldError]:
        """See `Allocate`."""

    def mark_deleted(self, ctx: HookContext, obj: Object) -> bool:
        """See `MarkDeleted`; returns whether a controller completes the deletion."""

    def present(self, stored: bytes) -> bytes | None:
        """Stored bytes in the version of the row; None if that needs a webhook."""

    async def from_storage(self, objects: Sequence[Object]) -> list[Object]:
        """Stored objects in the version of the row, in order; the arguments may be changed."""

    async def to_storage(self, obj: Object) -> Object:
        """An object of the version of the row in the storage version."""
