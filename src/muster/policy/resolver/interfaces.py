"""The interfaces of a resolver: sources of objects, options, results and errors.

A resolver reads objects through an `ObjectSource`, created for one run: one kind watches what is read, so that a change resolves
the policy again; others read from the server directly or from files. Reads are by `Selection` (one object by name, or objects by
label selector), which is also what is watched, so a Role with `resourceNames` is sufficient for reading one object.

Objects of a source are shared with all readers and must not be changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.gotemplate import Func
from muster.machinery.objects import GVR, Object
from muster.runtime.cache import Selection


class ObjectSource(Protocol):
    """The source of a cluster's objects for templates and comparisons."""

    async def mapping(self, api_version: str, kind: str) -> GVR:
        """Raises NoKindMatch if the server does not serve the kind, and KubeError if discovery failed."""
        ...

    async def read(self, selection: Selection) -> Sequence[Object]:
        """The selected objects, ordered by namespace and name; empty if there are none. Raises KubeError. Objects have neither
        managedFields nor kubectl's last-applied annotation."""
        ...


@dataclass(frozen=True)
class AllowedObject:
    """Cluster-scoped objects that may be looked up although lookups are restricted to a namespace; `*` means all."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True)
class Encryption:
    """AES-CBC with a fixed initialization vector, as used by the policy framework."""

    key: bytes = b""
    fallback_key: bytes = b""
    initialization_vector: bytes = b""
    encrypt: bool = False
    decrypt: bool = False


@dataclass(frozen=True)
class ResolveOptions:
    context: Mapping[str, Any] | None = None
    """Fields of the template's dot; an unknown field is an error. None: the dot is nil, and no field is an error."""
    lookup_namespace: str = ""
    """Lookups are restricted to this namespace, unless empty."""
    allow_list: tuple[AllowedObject, ...] = ()
    denylist: frozenset[str] = frozenset()
    """Functions that fail when called."""
    custom_functions: Mapping[str, Func] = field(default_factory=dict)
    bind: Mapping[str, Any] = field(default_factory=dict)
    """Implementations of late-bound custom functions in this run. A run may be repeated: they must be idempotent."""
    encryption: Encryption | None = None
    input_is_yaml: bool = False
    sensitive: bool = False
    """Whether the document itself is sensitive, such as the output of hub templates that have read Secrets: errors quote nothing
    of it then."""


@dataclass(frozen=True)
class Resolution:
    value: Any
    """The resolved document."""
    sensitive: bool
    """Whether a Secret was read, or a value decrypted."""


class ResolveError(Exception):
    """Why a template was not resolved. The message begins as go-template-utils', then follows the reason; it contains neither
    the document nor data of a Secret.

    `__cause__` is the error of a lookup (a KubeError), if that is the reason: the caller may use the last resolved state if the
    server could not be reached. If a function of the resolver failed, it is one of `errors`.
    """

    def __init__(self, text: str, *, detail: str = "", line: int = 0, column: int | None = None) -> None:
        super().__init__(text)
        self.detail = detail or text
        """The complete message of Go's template engine or yaml.v3."""
        self.line = line
        """Position in the document's YAML, from 1; 0 if unknown."""
        self.column = column
