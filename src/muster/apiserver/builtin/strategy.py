"""The strategy of built-in kinds: typed by Go structs, with hooks for kinds that need more than generic storage.

Types of requests to subresources (Scale, Binding, TokenRequest) are rows, too: they are decoded and shown, never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple

import orjson

from muster.apiserver.decode import strict
from muster.apiserver.decode.layouts import definition_of
from muster.apiserver.registry.builtin_types import definitions
from muster.apiserver.registry.patch_types import BUILTIN_PATCHES
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.registry.strategy import Allocate, HookContext, MarkDeleted, Prepare, Validate, WorkerStep
from muster.kube.fielderrors import FieldError
from muster.kube.schema_node import Schema
from muster.machinery.objects import Object


class Hooks(NamedTuple):
    prepare: Prepare | None = None
    validate: Validate | None = None
    on_delete: MarkDeleted | None = None
    allocate: Allocate | None = None


class Conversion(NamedTuple):
    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]


_NO_HOOKS: Final = Hooks()


def _no_defaults(obj: Object) -> None:
    """No defaults."""


def _prepare_nothing(ctx: HookContext, obj: Object, old: Object | None) -> WorkerStep | None:
    return None


def _allocate_nothing(ctx: HookContext, obj: Object) -> list[FieldError]:
    return []


class BuiltinStrategy:
    is_custom: Final = False
    needs_webhook: Final = False
    patch_types: Final[Sequence[str]] = BUILTIN_PATCHES

    def __init__(
        self,
        api_version: str,
        kind: str,
        schema: Schema,
        default: Callable[[Object], None] | None = None,
        hooks: Hooks = _NO_HOOKS,
        conversion: Conversion | None = None,
    ) -> None:
        self._api_version = api_version
        self._kind = kind
        self._schema = schema
        self.default = default or _no_defaults
        self.prepare = hooks.prepare or _prepare_nothing
        self.allocate = hooks.allocate or _allocate_nothing
        self._validate = hooks.validate
        self._on_delete = hooks.on_delete
        self._conversion = conversion
        self._empty: Object | None = None
        self.is_shown_as_stored = conversion is None

    def decode(self, obj: Object) -> tuple[Object, list[str]]:
        clears_ownership = (obj.get("metadata") or {}).get("managedFields") == []
        obj, unknown = strict.decode_typed(obj, self._schema)
        if clears_ownership:  # An empty list differs from none until managed fields are tracked.
            obj["metadata"]["managedFields"] = []
        return obj, unknown

    def empty(self) -> Object:
        if self._empty is None:
            self._empty = strict.decode_typed({}, self._schema)[0]
        return self._empty

    def validate(self, ctx: HookContext, obj: Object, old: Object | None, valid: bool) -> list[FieldError]:
        return self._validate(ctx, obj, old) if self._validate is not None else []

    def mark_deleted(self, ctx: HookContext, obj: Object) -> bool:
        if self._on_delete is None:
            return False
        self._on_delete(ctx, obj)
        return True

    def present(self, stored: bytes) -> bytes | None:
        return stored if self._conversion is None else orjson.dumps(self._conversion.from_storage(orjson.loads(stored)))

    async def from_storage(self, objects: Sequence[Object]) -> list[Object]:
        convert = self._conversion.from_storage if self._conversion is not None else None
        return [
            {**(convert(obj) if convert is not None else obj), "apiVersion": self._api_version, "kind": self._kind}
            for obj in objects
        ]

    async def to_storage(self, obj: Object) -> Object:
        return obj if self._conversion is None else self._conversion.to_storage(obj)


@cache
def request_type(group: str, version: str, kind: str, plural: str = "") -> ServedResource:
    """The row for a request type of a subresource."""
    name = definition_of(group, version, kind)
    assert name is not None
    schema = definitions()[name]
    strategy = BuiltinStrategy(f"{group}/{version}" if group else version, kind, schema)
    return ServedResource(group, version, plural or f"{kind.lower()}s", kind, True, schema, strategy)
