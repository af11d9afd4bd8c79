"""Field managers: tracks every write in `metadata.managedFields`, as `k8s.io/apimachinery/pkg/util/managedfields` (the algorithm is
in `kube.fieldmanager.managedfields`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import WriteOptions
from muster.kube.fieldmanager.fieldset import FieldSet, from_paths
from muster.kube.fieldmanager.managedfields import Convert, track
from muster.kube.schema_node import Schema
from muster.machinery.memo import memoized
from muster.machinery.objects import Object

Track = Callable[[Context, ServedResource, Object | None, Object, WriteOptions], None]
"""Sets managedFields of the new object. Arguments: context, resource, old object, new object, options."""

_MANAGER_BYTES = 128


def manager_name(ctx: Context, options: WriteOptions) -> str:
    """The field manager of a write other than apply: the one in its options, else the program in its User-Agent."""
    if options.field_manager:
        return options.field_manager
    return _manager_of(ctx.request.headers.get("user-agent") or "")


@memoized(1024)
def _manager_of(agent: str) -> str:
    printable = "".join(char for char in agent.partition("/")[0] if char.isprintable())
    return printable.encode()[:_MANAGER_BYTES].decode(errors="ignore") or "unknown"


_SPEC: FieldSet = from_paths([("f:spec",)])
_STATUS: FieldSet = from_paths([("f:status",)])
_SPEC_AND_METADATA: FieldSet = from_paths([("f:spec",), ("f:metadata",)])
_RESETS: Mapping[tuple[str, str], FieldSet] = {
    ("Deployment", "status"): from_paths([("f:spec",), ("f:metadata", "f:labels")]),
    ("Pod", "status"): from_paths([("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")]),
    ("CertificateSigningRequest", ""): from_paths([("f:spec",), ("f:status",)]),
    ("CertificateSigningRequest", "status"): from_paths([("f:spec",), ("f:status", "f:conditions")]),
    ("CertificateSigningRequest", "approval"): from_paths([("f:spec",), ("f:status", "f:certificate")]),
    ("APIService", "status"): _SPEC_AND_METADATA,
    ("CustomResourceDefinition", "status"): _SPEC_AND_METADATA,
    ("FlowSchema", "status"): _SPEC_AND_METADATA,
    ("PriorityLevelConfiguration", "status"): _SPEC_AND_METADATA,
    ("ValidatingAdmissionPolicy", "status"): _SPEC_AND_METADATA,
    ("VolumeAttachment", "status"): _SPEC_AND_METADATA,
}
"""Reset fields of built-in endpoints that differ from the defaults (`rest.ResetFieldsStrategy`)."""


def reset_fields(resource: ServedResource, subresource: str) -> FieldSet | None:
    """The reset fields: those that a write through this endpoint never owns."""
    special = None if resource.is_custom else _RESETS.get((resource.kind, subresource))
    if special is not None:
        return special
    if subresource == "status":
        return _SPEC
    return _STATUS if resource.has_status else None


def other_versions(ctx: Context, resource: ServedResource) -> Convert:
    """Conversion to the API versions of other managers; None for versions that are no longer served."""

    def convert(obj: Object, api_version: str) -> tuple[Object, Schema] | None:
        group, _, version = api_version.rpartition("/")
        row = ctx.cluster.resources.by_kind(group, version, resource.kind)
        return None if row is None else ({**obj, "apiVersion": api_version}, row.schema)

    return convert


def track_managed_fields(ctx: Context, resource: ServedResource, old: Object | None, new: Object, options: WriteOptions) -> None:
    managed = track(
        old,
        new,
        resource.schema,
        manager=manager_name(ctx, options),
        api_version=resource.api_version,
        now=ctx.now(),
        subresource=ctx.subresource,
        reset=reset_fields(resource, ctx.subresource),
        empty=resource.strategy.empty(),
        convert=other_versions(ctx, resource),
    )
    if managed:
        new["metadata"]["managedFields"] = managed
    else:
        new["metadata"].pop("managedFields", None)


def keep_managed_fields(ctx: Context, resource: ServedResource, old: Object | None, new: Object, options: WriteOptions) -> None:
    """Does nothing: apply has already set managedFields."""
