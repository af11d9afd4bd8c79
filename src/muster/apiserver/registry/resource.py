"""The row type of the registry. Every served resource, built-in or custom, is one `ServedResource`; the request pipeline reads
rows and knows no kinds. Special behaviour of a kind is a named hook on its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.kube.fielderrors import FieldError
from muster.kube.schema import Schema
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object


class Addresses(Protocol):
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
    def addresses(self) -> Addresses: ...
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


Rest = Callable[[], None]
Prepare = Callable[[HookContext, Object, Object | None], Rest | None]
"""Adjust the new object before validation (old is None on create): reset fields, allocate, normalise. Runs on the loop, where the
server's state may be looked at; what then follows from the object alone and grows with it is the rest, which runs beside the loop
where the object is large."""
MarkDeleted = Callable[[HookContext, Object], None]
"""Adjust an object that a delete request marks, e.g. to add a finalizer."""
Validate = Callable[[HookContext, Object, Object | None], list[FieldError]]
"""What is wrong with an object. Runs beside the loop where the object is large, and so depends on its arguments alone."""
Claim = Callable[[HookContext, Object], list[FieldError]]
"""What a valid object asks of the server and cannot have."""


_REGISTRY_PATHS = {
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One Table column. `path` is a JSONPath without braces (".spec.replicas"); `render` overrides it where a cell is computed."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""
    render: Callable[[Object], Any] | None = None


@dataclass(frozen=True, slots=True)
class Subresource:
    """`name` as in the URL (`status`, `scale`, `token`). `kind`/`group`/`version` differ from the parent's for scale, token …
    `storage` tells whether it reads and writes the parent object (status, approval, finalize) or is answered by the
    handler registered under the same name. One that `takes_path` is answered with whatever follows it in the path and by whatever
    method, and its handler reads the body."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    storage: bool = True
    takes_path: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """JSONPaths of a scale subresource."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


@dataclass(slots=True)
class ServedResource:
    """One served group/version/resource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    schema: Schema
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = (
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    )
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    storage: str = ""
    """Resource name in the store, `group/plural`; two versions of one kind (and the two Event groups) share it."""
    storage_version: str = ""
    """apiVersion objects are stored under; others are converted with `from_storage`/`to_storage`."""
    tracks_generation: bool = False
    needs_resource_version: bool = False
    """A PUT without resourceVersion is refused (422) instead of overwriting."""
    create_on_update: bool = False
    """A PUT on a missing object creates it."""
    drops_status_on_create: bool = True
    """Whether a status sent on create is ignored (Nodes report theirs when they register)."""
    deprecation: str = ""
    """What every request is warned with; empty for most."""
    returns_deleted_object: bool = False
    """DELETE answers the deleted object instead of a Status (a few old kinds do)."""
    orphans_by_default: bool = False
    """A DELETE that names no policy leaves dependents alone instead of deleting them in the background."""
    default: Callable[[Object], None] | None = None
    """Fills defaults in place; idempotent."""
    columns: tuple[Column, ...] = ()
    selectable: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    """Field selectors beyond metadata.name/namespace."""
    scale: Scale | None = None
    prepare: Prepare | None = None
    validate: Validate | None = None
    claim: Claim | None = None
    on_delete: MarkDeleted | None = None
    """Set where deletion is a process of its own (namespaces, definitions): then it has no grace period and no generation."""
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None
    custom: Any = None
    """The compiled CustomResourceDefinition version for custom resources, None for built-ins."""
    name_rule: str = "dns-subdomain"
    """How metadata.name is checked: dns-subdomain, dns-label, dns-1035-label, path-segment, …"""
    type_prefix: bytes = b""
    """How stored objects begin: kind and stored apiVersion (see `objects`)."""

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or self.kind + "List"
        self.storage = self.storage or f"{self.group}/{self.plural}"
        self.storage_version = self.storage_version or self.api_version
        self.type_prefix = b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.storage_version.encode())

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """How messages name the resource: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def registry_path(self) -> str:
        """Where the real server keeps objects of this resource; some messages show it."""
        if self.custom is not None or self.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
            return f"{self.group}/{self.plural}"
        return _REGISTRY_PATHS.get(self.plural, self.plural)

    @property
    def go_type(self) -> str:
        """How messages that name Go types call an object: `apps.Deployment`; custom resources have one type for all."""
        return "unstructured.Unstructured" if self.custom is not None else f"{self.group.partition('.')[0] or 'core'}.{self.kind}"

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources
