"""Compiles a stored CRD to the rows that the request pipeline serves: one `ServedResource` per served version.

What depends only on the schema of a version (pruning, defaulting, validation, rules) is compiled once per content and shared by all
logical clusters in an LRU cache. A `CustomStrategy` adds what belongs to one CRD: its other versions and their conversion.

Reading follows apiextensions-apiserver: an object is pruned and defaulted with the schema of its stored version, converted, and
then pruned with the schema of the requested version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from muster.apiserver.crd.content_cache import ContentCache
from muster.apiserver.crd.converters import Converter, converter_for
from muster.apiserver.crd.printer_columns import table_columns
from muster.apiserver.crd.rules import rule_tree
from muster.apiserver.crd.scale import check_scale
from muster.apiserver.crd.warnings import deprecation, finalizer_warnings
from muster.apiserver.decode import strict
from muster.apiserver.decode.errors import DecodeError
from muster.apiserver.registry import builtin_types
from muster.apiserver.registry.patch_types import CUSTOM_PATCHES
from muster.apiserver.registry.resource import Scale, ServedResource, Subresource
from muster.apiserver.registry.strategy import HookContext, WorkerStep
from muster.apiserver.webhooks import NO_ROUTE, WebhookRoute
from muster.kube.fielderrors import (
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    FieldError,
    invalid,
)
from muster.kube.jsonpath import compile_path
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.defaulting import defaulter
from muster.kube.structural_schema.embedded import check_embedded, clean_metadata, coerce, malformed_metadata
from muster.kube.structural_schema.listtypes import duplicates
from muster.kube.structural_schema.openapi import NOWHERE
from muster.kube.structural_schema.prune import pruner
from muster.kube.structural_schema.ratchet import Correlation
from muster.kube.structural_schema.validation import SchemaValidator
from muster.machinery.golang import formatting
from muster.machinery.golang import json as gojson
from muster.machinery.objects import Object

SHARED_SCHEMAS: Final = 1024
_BLOCKING_REASONS: Final = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
_RULES_SKIPPED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)
_META_NAME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OBJECT_META: Final = f"#/components/schemas/{_META_NAME}"
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class CompiledSchema:
    """Everything that is compiled from the schema of one version."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.schema = Schema(raw)
        typed = {**raw, "properties": {**(raw.get("properties") or {}), **_TYPE_FIELDS}}
        self.served = Schema(typed, builtin_types.definitions())
        """The schema with apiVersion, kind and metadata, for patches and managed fields."""
        self.prune = pruner(self.schema)
        self.default = defaulter(self.schema)
        self.validator = SchemaValidator(raw)
        status = (raw.get("properties") or {}).get("status")
        self.status_validator = None if status is None else SchemaValidator(status)
        self.rules = rule_tree(raw)


_TYPE_FIELDS: Final[dict[str, Any]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": _OBJECT_META},
}
_schemas: Final[ContentCache[CompiledSchema]] = ContentCache(SHARED_SCHEMAS)
_rows: Final[ContentCache[list[ServedResource]]] = ContentCache(SHARED_SCHEMAS)


def compiled_schema(raw: Mapping[str, Any]) -> CompiledSchema:
    """The compiled form of a schema, shared by content."""
    return _schemas.get(raw, lambda: CompiledSchema(raw))


class CustomStrategy:
    """The strategy of one served version of a custom resource."""

    is_custom: Final = True
    is_shown_as_stored: Final = False
    patch_types: Final[Sequence[str]] = CUSTOM_PATCHES

    def __init__(
        self,
        api_version: str,
        storage_version: str,
        schemas: Mapping[str, CompiledSchema],
        converter: Converter,
        scale: Scale | None,
        multiple_stored_versions: bool,
    ) -> None:
        """`schemas` has all versions of the CRD by apiVersion; stored objects may be of several versions if
        `multiple_stored_versions` is set."""
        self.api_version = api_version
        self._storage_version = storage_version
        self._schemas = schemas
        self._own = schemas[api_version]
        self._converter = converter
        self._scale = scale
        self.needs_webhook = converter.remote and (multiple_stored_versions or api_version != storage_version)

    def decode(self, obj: Object) -> tuple[Object, list[str]]:
        return obj, self.prune(obj)

    def prune(self, obj: Object) -> list[str]:
        """Prune unknown fields; return their paths. Raises DecodeError for malformed metadata."""
        problem = malformed_metadata(obj.get("metadata"))
        if problem:
            raise DecodeError(problem)
        unknown = [f"metadata.{name}" for name in clean_metadata(obj.get("metadata"))]
        if obj.get("metadata"):
            obj["metadata"], _ = strict.decode_typed(obj["metadata"], builtin_types.definitions()[_META_NAME])
        unknown += self._own.prune(obj)
        inner, malformed = coerce(obj, self._own.schema)
        if malformed is not None:
            raise DecodeError(str(malformed))
        return unknown + inner

    def default(self, obj: Object) -> None:
        self._own.default(obj)

    def empty(self) -> Object:
        return {}

    def prepare(self, ctx: HookContext, obj: Object, old: Object | None) -> WorkerStep | None:
        return None

    def allocate(self, ctx: HookContext, obj: Object) -> list[FieldError]:
        return []

    def mark_deleted(self, ctx: HookContext, obj: Object) -> bool:
        return False

    def validate(self, ctx: HookContext, obj: Object, old: Object | None, valid: bool) -> list[FieldError]:
        return self.check(obj, old, ctx.subresource, ctx.warn if valid else None)

    def check(
        self, obj: Object, old: Object | None, subresource: str = "", warn: Callable[[str], None] | None = None
    ) -> list[FieldError]:
        """Validate an object by schema, list types, scale and rules, without its metadata. `warn` is called for rules that an
        unchanged part violates (ratcheting), and for unqualified finalizers of a valid object."""
        own = self._own
        if subresource == "status" and old is not None:
            errors = self._validate_status(obj, old)
        else:
            errors = own.validator.errors(obj, old)
            errors += check_scale(self._scale, obj)
            errors += check_embedded(obj, own.schema)
            repeated = duplicates(obj, own.schema)
            if repeated and (old is None or not duplicates(old, own.schema)):
                errors += repeated
        if own.rules is not None:
            if any(error.reason in _BLOCKING_REASONS for error in errors):
                errors.append(invalid(NOWHERE, None, _RULES_SKIPPED))
            else:
                correlation = None if old is None else Correlation(obj, old, own.validator.node)
                broken, ratcheted = own.rules.validate(obj, old, correlation)
                errors += broken
                if warn is not None:
                    for error in ratcheted:
                        warn(str(error))
        if warn is not None and not errors and not subresource:
            for text in finalizer_warnings(obj, old):
                warn(text)
        return errors

    def _validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        if "status" in obj and self._own.status_validator is not None:
            errors += self._own.status_validator.errors(obj["status"], old.get("status"), "status")
        errors += check_scale(self._scale, obj, spec=False)
        repeated = duplicates(obj, self._own.schema)
        if repeated and not duplicates(old, self._own.schema):
            errors += repeated
        return errors

    def present(self, value: bytes) -> bytes | None:
        """Stored bytes, converted to this version and with the present defaults; None if that needs a webhook."""
        obj: Object = orjson.loads(value)
        if obj["apiVersion"] != self.api_version and self._converter.remote:
            return None
        self._prune_and_default(obj)
        if obj["apiVersion"] != self.api_version:
            obj["apiVersion"] = self.api_version
            self._own.prune(obj)
        return gojson.dumps(obj)

    def _prune_and_default(self, obj: Object) -> None:
        """Prune and default a stored object with the schema of its stored version."""
        stored = self._schemas.get(obj["apiVersion"])
        if stored is not None:
            stored.prune(obj)
            stored.default(obj)

    async def from_storage(self, objects: Sequence[Object]) -> list[Object]:
        """Stored objects in this version, in order."""
        for obj in objects:
            self._prune_and_default(obj)
        return await self._convert(objects, self.api_version)

    async def to_storage(self, obj: Object) -> Object:
        """An object of this version in the storage version."""
        return (await self._convert([obj], self._storage_version))[0]

    async def _convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        converted = await self._converter.convert(objects, api_version)
        schema = self._schemas[api_version]
        for before, obj in zip(objects, converted, strict=True):
            if before["apiVersion"] != api_version or before is not obj:
                schema.prune(obj)
        return converted


def compile_definition(definition: Mapping[str, Any], route: WebhookRoute = NO_ROUTE) -> list[ServedResource]:
    """The rows of all served versions of a CRD, under its accepted names. Rows are shared by content, unless conversion calls a
    webhook, whose address may depend on the cluster."""
    spec = definition["spec"]
    status = definition.get("status") or {}
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        return _make_rows(definition, route)
    content = [spec, status.get("acceptedNames"), status.get("storedVersions")]
    return _rows.get(content, lambda: _make_rows(definition, NO_ROUTE))


def _make_rows(definition: Mapping[str, Any], route: WebhookRoute) -> list[ServedResource]:
    spec = definition["spec"]
    group, versions = spec["group"], spec["versions"]
    accepted = (definition.get("status") or {}).get("acceptedNames") or {}
    names = accepted if accepted.get("kind") else spec["names"]
    storage = f"{group}/{next(version['name'] for version in versions if version.get('storage'))}"
    schemas = {f"{group}/{version['name']}": compiled_schema(_schema_of(version)) for version in versions}
    converter = converter_for(definition, route)
    multiple_stored_versions = len((definition.get("status") or {}).get("storedVersions") or ()) > 1
    rows = []
    for version in versions:
        if not version.get("served"):
            continue
        api_version = f"{group}/{version['name']}"
        scale = _scale_of(version)
        strategy = CustomStrategy(api_version, storage, schemas, converter, scale, multiple_stored_versions)
        rows.append(
            ServedResource(
                group=group,
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                schema=schemas[api_version].served,
                strategy=strategy,
                singular=names.get("singular") or "",
                list_kind=names.get("listKind") or "",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                verbs=_VERBS,
                subresources=_subresources_of(version, names["kind"], group),
                storage_version=storage,
                tracks_generation=True,
                needs_resource_version=True,
                columns=table_columns(version.get("additionalPrinterColumns")),
                selectable={
                    field["jsonPath"].removeprefix("."): _reader(field["jsonPath"])
                    for field in version.get("selectableFields") or ()
                },
                scale=scale,
                deprecation=deprecation(version, spec),
            )
        )
    return rows


def _schema_of(version: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a version; one without a schema preserves unknown fields."""
    raw: Mapping[str, Any] | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return raw if raw is not None else {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _scale_of(version: Mapping[str, Any]) -> Scale | None:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return None
    return Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or "")


def _subresources_of(version: Mapping[str, Any], kind: str, group: str) -> dict[str, Subresource]:
    given = version.get("subresources") or {}
    found: dict[str, Subresource] = {}
    if given.get("status") is not None:
        found["status"] = Subresource("status", kind, ("get", "patch", "update"))
    if given.get("scale") is not None:
        found["scale"] = Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1", storage=False)
    return found


def _reader(path: str) -> Any:
    """A function that returns the value of a selectable field as text, "" if it is absent."""
    compiled = compile_path(path)

    def read(obj: Object) -> str:
        found = compiled.find(obj)
        return formatting.text(found[0]) if found and found[0] is not None else ""

    return read
