"""What a resolver is asked, what it asks of a cluster, and what it answers.

A resolver reads objects through an `ObjectSource`, made for one run: live ones follow what is read, so that a change of it
resolves the policy again; others ask the server directly or look into files. Reading is by `Selection` (one object by name, or
objects by label selector), which is also what is watched, so a Role with `resourceNames` is enough for reading one object.

Objects that a source gives are shared with everybody who reads them: nobody may change one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.gotemplate import Func
from muster.machinery.objects import GVR, Object
from muster.runtime.cache import Selection


class ObjectSource(Protocol):
    """Where templates, and comparisons, read a cluster."""

    async def mapping(self, api_version: str, kind: str) -> GVR:
        """Raises NoKindMatch when the server says that it has no such kind, and KubeError when it could not be asked."""
        ...

    async def read(self, selection: Selection) -> Sequence[Object]:
        """The objects selected, ordered by namespace and name; empty when there are none. Raises KubeError. Objects come without
        managedFields and without kubectl's last-applied annotation."""
        ...


@dataclass(frozen=True)
class AllowedObject:
    """Cluster-scoped objects that may be looked up although lookups are restricted to a namespace; `*` stands for all."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True)
class Encryption:
    """AES-CBC with a fixed initialization vector, as the policy framework has it."""

    key: bytes = b""
    fallback_key: bytes = b""
    initialization_vector: bytes = b""
    encrypt: bool = False
    decrypt: bool = False


@dataclass(frozen=True)
class ResolveOptions:
    context: Mapping[str, Any] | None = None
    """Fields of the template's dot; an unknown one is an error. None: the dot is nil, of which no field is an error."""
    lookup_namespace: str = ""
    """Lookups are restricted to it, unless empty."""
    allow_list: tuple[AllowedObject, ...] = ()
    denylist: frozenset[str] = frozenset()
    """Functions that fail when they are called."""
    custom_functions: Mapping[str, Func] = field(default_factory=dict)
    bind: Mapping[str, Any] = field(default_factory=dict)
    """What custom functions that are bound late do in this run. A run may begin again: what they do must not add up."""
    encryption: Encryption | None = None
    input_is_yaml: bool = False
    sensitive: bool = False
    """Whether the document itself holds what is secret, such as what hub templates have read: errors show nothing of it then."""


@dataclass(frozen=True)
class Resolution:
    value: Any
    """The resolved document."""
    sensitive: bool
    """Whether a Secret was read, or something decrypted."""


class ResolveError(Exception):
    """Why a template was not resolved. The text begins as go-template-utils' does, then comes the reason; the document is not in
    it, and nothing of a Secret is.

    `__cause__` is what a lookup failed with (a KubeError) where that is why: whoever has a last known result asks whether the
    server could not be reached, or has answered. If a function of the resolver failed, it is one of `errors`.
    """

    def __init__(self, text: str, *, detail: str = "", line: int = 0, column: int | None = None) -> None:
        super().__init__(text)
        self.detail = detail or text
        """What Go's template engine or yaml.v3 would have said, in full length."""
        self.line = line
        """Of the document's YAML, from 1; 0 if unknown."""
        self.column = column
