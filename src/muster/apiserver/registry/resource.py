"""The row type of the registry. Every served resource, built-in or custom, is one `ServedResource`; the request pipeline reads
rows and knows no kinds. How objects of a row behave is its strategy's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.apiserver.registry.strategy import Strategy
from muster.kube.schema_node import Schema
from muster.machinery.objects import Object

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
    strategy: Strategy
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
    """apiVersion objects are stored under; the strategy converts those of others."""
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
    columns: tuple[Column, ...] = ()
    selectable: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    """Field selectors beyond metadata.name/namespace."""
    scale: Scale | None = None
    name_rule: str = "dns-subdomain"
    """How metadata.name is checked: dns-subdomain, dns-label, dns-1035-label, path-segment, …"""
    type_prefix: bytes = b""
    """How stored objects begin: kind and stored apiVersion (see `objects`)."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition serves it; the strategy says."""

    def __post_init__(self) -> None:
        self.is_custom = self.strategy.is_custom
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
        if self.is_custom or self.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
            return f"{self.group}/{self.plural}"
        return _REGISTRY_PATHS.get(self.plural, self.plural)

    @property
    def go_type(self) -> str:
        """How messages that name Go types call an object: `apps.Deployment`; custom resources have one type for all."""
        return "unstructured.Unstructured" if self.is_custom else f"{self.group.partition('.')[0] or 'core'}.{self.kind}"

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources
