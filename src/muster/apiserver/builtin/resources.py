"""The rows of all built-in resources. Discovery data (names, verbs, scope, subresources) is generated; the tables here add what
discovery does not contain: which kinds track a generation, require a resourceVersion, may be created by PUT, and how they are
named, defaulted, printed and validated. Rows are created once per process and shared by all logical clusters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from muster.apiserver.builtin.columns import DEFAULT, builtin_columns
from muster.apiserver.builtin.defaults import DEFAULTS
from muster.apiserver.builtin.field_selectors import SELECTABLE
from muster.apiserver.builtin.kinds import CONVERSIONS, HOOKS
from muster.apiserver.builtin.kinds.warnings import DEPRECATED, WARNINGS, warning
from muster.apiserver.builtin.strategy import BuiltinStrategy, Hooks
from muster.apiserver.decode import typed
from muster.apiserver.decode.layouts import definition_of, layout
from muster.apiserver.registry import builtin_types
from muster.apiserver.registry.resource import Column, Scale, ServedResource, Subresource
from muster.apiserver.registry.strategy import HookContext, Prepare, WorkerStep
from muster.apiserver.registry.table import Key
from muster.machinery.objects import Object

_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"

TRACKS_GENERATION: Final = frozenset(
    {
        ("", "pods"),
        ("", "podtemplates"),
        ("", "replicationcontrollers"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apps", "daemonsets"),
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("batch", "cronjobs"),
        ("batch", "jobs"),
        ("discovery.k8s.io", "endpointslices"),
        ("networking.k8s.io", "ingressclasses"),
        ("networking.k8s.io", "ingresses"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("scheduling.k8s.io", "priorityclasses"),
        (_FLOW, "flowschemas"),
        (_FLOW, "prioritylevelconfigurations"),
        (_ADMISSION, "mutatingwebhookconfigurations"),
        (_ADMISSION, "validatingwebhookconfigurations"),
        (_ADMISSION, "validatingadmissionpolicies"),
        (_ADMISSION, "validatingadmissionpolicybindings"),
    }
)
NEEDS_RESOURCE_VERSION: Final = frozenset(
    {
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("coordination.k8s.io", "leases"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
        (_STORAGE, "csidrivers"),
        (_STORAGE, "csinodes"),
        (_STORAGE, "csistoragecapacities"),
        (_STORAGE, "volumeattachments"),
        (_ADMISSION, "mutatingwebhookconfigurations"),
        (_ADMISSION, "validatingwebhookconfigurations"),
        (_ADMISSION, "validatingadmissionpolicies"),
        (_ADMISSION, "validatingadmissionpolicybindings"),
    }
)
CREATE_ON_UPDATE: Final = frozenset(
    {
        ("", "endpoints"),
        ("", "events"),
        ("", "limitranges"),
        ("", "services"),
        ("coordination.k8s.io", "leases"),
        ("events.k8s.io", "events"),
        ("node.k8s.io", "runtimeclasses"),
        (_RBAC, "clusterrolebindings"),
        (_RBAC, "clusterroles"),
        (_RBAC, "rolebindings"),
        (_RBAC, "roles"),
    }
)
RETURNS_DELETED_OBJECT: Final = frozenset(
    {
        ("", "namespaces"),
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "pods"),
        ("", "podtemplates"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("", "services"),
        (_STORAGE, "csidrivers"),
        (_STORAGE, "csinodes"),
        (_STORAGE, "storageclasses"),
        (_STORAGE, "volumeattachments"),
        (_STORAGE, "volumeattributesclasses"),
    }
)
ORPHANS_BY_DEFAULT: Final = frozenset({("", "replicationcontrollers"), ("batch", "jobs")})
NAME_RULES: Final[Mapping[tuple[str, str], str]] = {
    ("", "namespaces"): "dns-label",
    ("", "services"): "dns-1035-label",
    ("apps", "statefulsets"): "dns-label",
    ("apiregistration.k8s.io", "apiservices"): "path-segment",
    ("certificates.k8s.io", "certificatesigningrequests"): "any",
    ("networking.k8s.io", "ipaddresses"): "any",
    (_RBAC, "clusterrolebindings"): "path-segment",
    (_RBAC, "clusterroles"): "path-segment",
    (_RBAC, "rolebindings"): "path-segment",
    (_RBAC, "roles"): "path-segment",
}
SCALES: Final[Mapping[tuple[str, str], Scale]] = {
    ("", "replicationcontrollers"): Scale(selector=".spec.selector"),
    ("apps", "deployments"): Scale(selector=".spec.selector"),
    ("apps", "replicasets"): Scale(selector=".spec.selector"),
    ("apps", "statefulsets"): Scale(selector=".spec.selector"),
}
NOT_STORED: Final = frozenset({"scale", "token", "binding", "eviction", "log", "exec", "attach", "portforward"})
"""Subresources that are not another view of the stored parent object."""
STORED_AS: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("autoscaling", "horizontalpodautoscalers"): ("autoscaling/horizontalpodautoscalers", "autoscaling/v2"),
    ("events.k8s.io", "events"): ("/events", "v1"),
}


@cache
def builtin_resources() -> tuple[ServedResource, ...]:
    """All built-in rows, in discovery order."""
    columns = builtin_columns()
    return tuple(_row(facts, columns.get(facts["kind"], columns[DEFAULT])) for facts in builtin_types.discovery_rows())


@cache
def builtin_table() -> dict[Key, ServedResource]:
    """The built-in rows by group, version and plural, with which the table of each cluster starts."""
    return {(row.group, row.version, row.plural): row for row in builtin_resources()}


def _row(facts: Mapping[str, Any], columns: tuple[Column, ...]) -> ServedResource:
    group, version, kind = facts["group"], facts["version"], facts["kind"]
    key = (group, facts["plural"])
    definition = definition_of(group, version, kind)
    if definition is None:
        raise LookupError(f"no struct layout for {group}/{version} {kind}")
    storage, storage_version = STORED_AS.get(key, ("", ""))
    hooks = HOOKS.get(key, Hooks())
    schema = builtin_types.definitions()[definition]
    strategy = BuiltinStrategy(
        f"{group}/{version}" if group else version,
        kind,
        schema,
        DEFAULTS.get((group, version, kind)),
        hooks._replace(prepare=_with_empty_status(hooks.prepare, definition), validate=warning(hooks.validate, WARNINGS.get(key))),
        CONVERSIONS.get((group, version, facts["plural"])),
    )
    return ServedResource(
        group=group,
        version=version,
        plural=facts["plural"],
        kind=kind,
        namespaced=facts["namespaced"],
        schema=schema,
        strategy=strategy,
        singular=facts["singular"],
        short_names=tuple(facts.get("short_names", ())),
        categories=tuple(facts.get("categories", ())),
        verbs=tuple(facts["verbs"]),
        subresources=_subresources(facts),
        storage=storage,
        storage_version=storage_version,
        tracks_generation=key in TRACKS_GENERATION,
        needs_resource_version=key in NEEDS_RESOURCE_VERSION,
        create_on_update=key in CREATE_ON_UPDATE,
        columns=columns,
        selectable=SELECTABLE.get(key, {}),
        scale=SCALES.get(key),
        deprecation=DEPRECATED.get(key, ""),
        returns_deleted_object=key in RETURNS_DELETED_OBJECT,
        orphans_by_default=key in ORPHANS_BY_DEFAULT,
        drops_status_on_create=key != ("", "nodes"),
        name_rule=NAME_RULES.get(key, "dns-subdomain"),
    )


def _with_empty_status(prepare: Prepare | None, definition: str) -> Prepare | None:
    """Set the empty status of a new object, which clients may not set, with the zero values of its type."""
    field = layout(definition).json_fields.get("status")
    if field is None or field.pointer or field.type.kind != "struct":
        return prepare
    name = field.type.name

    def prepared(ctx: HookContext, obj: Object, old: Object | None) -> WorkerStep | None:
        rest = prepare(ctx, obj, old) if prepare is not None else None
        if "status" not in obj:
            obj["status"] = typed.struct(name)({})
        return rest

    return prepared


def _subresources(facts: Mapping[str, Any]) -> dict[str, Subresource]:
    return {
        name: Subresource(
            name=name,
            kind=sub["kind"],
            verbs=tuple(sub["verbs"]),
            group=sub.get("group", ""),
            version=sub.get("version", ""),
            storage=name not in NOT_STORED,
        )
        for name, sub in facts.get("subresources", {}).items()
    }
