"""The attributes of one operation under admission, in the terms of webhooks and policies: operation, resource, kind, name,
namespace and objects. Corresponds to `admission.Attributes` and `admission.VersionedAttributes` in
`k8s.io/apiserver/pkg/admission`.

A rule may be written for another served version than the one the client uses; the webhook or policy then gets the object converted
to the rule's version. Conversions are made once per version. A write to a scale subresource is shown as the Scale object, although
its parent is what gets stored.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.builtin.strategy import request_type
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.scales import scale_of, set_replicas
from muster.apiserver.storage_versions import to_stored
from muster.machinery.objects import Object

_REQUESTS: Final = frozenset({"binding", "eviction", "token"})
_GROUP: Final = "admissionregistration.k8s.io"
_EXEMPT: Final = frozenset(
    f"{_GROUP}/{plural}"
    for plural in (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    )
)


def is_exempt(ctx: Context, resource: ServedResource, operation: Operation) -> bool:
    """Whether webhooks and policies are skipped: for their own configuration objects, which must stay repairable, and for the
    writes that result from an eviction or a binding, which were admitted with that request."""
    if resource.group == _GROUP and resource.storage in _EXEMPT:
        return True
    return ctx.attributes.subresource in _REQUESTS and operation.name != "CREATE"


class AdmissionAttributes:
    """One operation under admission and the request it belongs to."""

    def __init__(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        attributes = ctx.attributes
        self.ctx = ctx
        self.resource = resource
        self.operation = operation.name
        self.new = operation.new
        self.old = operation.old
        self.dry_run = operation.dry_run
        self.subresource = attributes.subresource
        self.name = "" if attributes.verb == "deletecollection" else attributes.name
        if not self.name and operation.new is not None:
            self.name = operation.new["metadata"].get("name", "")
        self.is_namespace = resource.storage == "/namespaces"
        self.namespace = attributes.namespace or (self.name if self.is_namespace else "")
        self._given = operation.options
        self._parent = operation.new
        if self.subresource == "scale" and resource.scale is not None:
            self.new, self.old = _scale(resource, operation.new), _scale(resource, operation.old)
        self._converted: dict[str, tuple[Object | None, Object | None]] = {}

    @property
    def equivalents(self) -> list[ServedResource]:
        """The other versions (and groups) under which the same objects are served."""
        own = self.resource
        return [row for row in self.ctx.cluster.resources.stored_as(own.storage) if row is not own]

    def kind_of(self, row: ServedResource) -> dict[str, str]:
        sub = row.subresources.get(self.subresource) if self.subresource else None
        if sub is not None and sub.version:
            return {"group": sub.group, "version": sub.version, "kind": sub.kind}
        return {"group": row.group, "version": row.version, "kind": sub.kind if sub is not None else row.kind}

    @staticmethod
    def resource_of(row: ServedResource) -> dict[str, str]:
        return {"group": row.group, "version": row.version, "resource": row.plural}

    async def objects(self, row: ServedResource) -> tuple[Object | None, Object | None]:
        """The new and the old object, converted to the version of `row`."""
        if row is self.resource or self.type_of(row) is not row:
            return self.new, self.old
        found = self._converted.get(row.api_version)
        if found is None:
            found = (await _convert(self.resource, row, self.new), await _convert(self.resource, row, self.old))
            self._converted[row.api_version] = found
        return found

    @property
    def _shows_scale(self) -> bool:
        return self.subresource == "scale" and self.resource.scale is not None

    def type_of(self, row: ServedResource) -> ServedResource:
        """The row that describes the type of the objects shown for `row`."""
        sub = row.subresources.get(self.subresource) if self.subresource else None
        return request_type(sub.group, sub.version, sub.kind, sub.name) if sub is not None and sub.version else row

    @property
    def result(self) -> Object | None:
        """The admitted object in the form in which the request stores it."""
        if self._shows_scale and self.new is not None and self._parent is not None and self.resource.scale is not None:
            set_replicas(self.resource.scale, self._parent, self.new["spec"].get("replicas", 0))
            return self._parent
        return self.new

    async def replace(self, row: ServedResource, obj: Object) -> None:
        """Replace the new object by a changed one, which is in the version of `row`."""
        self._converted.clear()
        if self.type_of(row) is not row:
            self.new = obj
            return
        converted = await _convert(row, self.resource, obj)
        assert converted is not None
        self.new = converted

    @property
    def options(self) -> Object:
        ctx = self.ctx
        if self.operation == "DELETE":
            found: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
            return found | {key: value for key, value in self._given.items() if key not in found and value is not None}
        kind = "CreateOptions" if self.operation == "CREATE" else "UpdateOptions"
        options: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        for field in ("fieldManager", "fieldValidation"):
            value = ctx.query.get(field)
            if value:
                options[field] = value
        return options

    def request(self, row: ServedResource) -> Object:
        """The AdmissionRequest without uid and objects, for a rule that matched the version of `row`."""
        request: dict[str, Any] = {"kind": self.kind_of(row), "resource": self.resource_of(row)}
        if self.subresource:
            request["subResource"] = self.subresource
        request["requestKind"] = self.kind_of(self.resource)
        request["requestResource"] = self.resource_of(self.resource)
        if self.subresource:
            request["requestSubResource"] = self.subresource
        if self.name:
            request["name"] = self.name
        if self.namespace:
            request["namespace"] = self.namespace
        request["operation"] = self.operation
        request["userInfo"] = self.ctx.user.document()
        request["dryRun"] = self.dry_run
        request["options"] = self.options
        return request


def _scale(resource: ServedResource, parent: Object | None) -> Object | None:
    return None if parent is None or resource.scale is None else scale_of(resource.scale, parent)


def new_forbidden(attributes: AdmissionAttributes, text: str, causes: list[dict[str, str]] | None = None) -> errors.ApiError:
    """The 403 answer of an admission plugin, as `admission.NewForbidden`."""
    name = attributes.name
    if not name:
        meta = attributes.new["metadata"] if attributes.new is not None else {}
        name = meta.get("generateName") or "Unknown"
    return errors.forbidden(attributes.resource.group, attributes.resource.plural, name, text, causes)


async def _convert(source: ServedResource, target: ServedResource, obj: Object | None) -> Object | None:
    if obj is None or source is target:
        return obj
    copied: Object = orjson.loads(orjson.dumps(obj))
    stored = await to_stored(source, copied)
    return (await target.strategy.from_storage([stored]))[0]
