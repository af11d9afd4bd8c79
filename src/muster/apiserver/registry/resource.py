"""The row type of the registry. Every served resource, built-in or custom, is a `ServedResource`; the request pipeline only uses
rows and no kinds. Its strategy defines the behaviour of its objects."""

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
    """One Table column. `path` is a JSONPath without braces (".spec.replicas"); `render`, if set, computes the cell instead."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""
    render: Callable[[Object], Any] | None = None


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource; `name` as in the URL (`status`, `scale`, `token`). `kind`, `group` and `version` are set if they differ from
    the parent's. `storage`: whether it reads and writes the parent object (status, approval, finalize) or has a handler of its own.
    `takes_path`: the handler serves all paths below it with all methods, and reads the body."""

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
    """The name of the resource in the store, `group/plural`; versions of one kind (and the two Event groups) share it."""
    storage_version: str = ""
    """The apiVersion of stored objects; the strategy converts from and to it."""
    tracks_generation: bool = False
    needs_resource_version: bool = False
    """Whether an update without resourceVersion is rejected (422) instead of overwriting."""
    create_on_update: bool = False
    """Whether an update of a missing object creates it."""
    drops_status_on_create: bool = True
    """Whether a status is ignored on create; Nodes set theirs when they register."""
    deprecation: str = ""
    """The deprecation warning for every request, if any."""
    returns_deleted_object: bool = False
    """Whether DELETE answers with the deleted object instead of a Status, as for a few old kinds."""
    orphans_by_default: bool = False
    """Whether the default propagation policy is Orphan instead of Background."""
    columns: tuple[Column, ...] = ()
    selectable: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    """Supported field selectors beyond metadata.name and metadata.namespace."""
    scale: Scale | None = None
    name_rule: str = "dns-subdomain"
    """The validation of metadata.name: dns-subdomain, dns-label, dns-1035-label, path-segment, …"""
    type_prefix: bytes = b""
    """The beginning of stored objects: kind and stored apiVersion (see `objects`)."""
    is_custom: bool = False
    """Whether it is a custom resource; set from the strategy."""

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
        """The name of the resource in messages: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def registry_path(self) -> str:
        """The path of the resource below /registry in etcd, which some messages show."""
        if self.is_custom or self.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
            return f"{self.group}/{self.plural}"
        return _REGISTRY_PATHS.get(self.plural, self.plural)

    @property
    def go_type(self) -> str:
        """The Go type of an object in messages: `apps.Deployment`; all custom resources have the same."""
        return "unstructured.Unstructured" if self.is_custom else f"{self.group.partition('.')[0] or 'core'}.{self.kind}"

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources
