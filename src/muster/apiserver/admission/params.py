"""The parameters of a policy: the objects of its paramKind that the paramRef of a binding selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver.admission.attributes import AdmissionAttributes
from muster.apiserver.objects import labels, object_key
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.storage_versions import from_stored
from muster.kube.selectors import from_label_selector_object
from muster.machinery.objects import Object


class Misconfigured(Exception):
    """A policy or binding cannot be evaluated as configured; the failure policy decides whether the request is denied."""


def params_row(attributes: AdmissionAttributes, kind: Mapping[str, Any]) -> ServedResource:
    """The served resource of a paramKind."""
    group, _, version = str(kind.get("apiVersion")).rpartition("/")
    row = attributes.ctx.cluster.resources.by_kind(group, version, str(kind.get("kind")))
    if row is None:
        shown = f"{kind.get('apiVersion')}, Kind={kind.get('kind')}" if group else f"/{version}, Kind={kind.get('kind')}"
        raise Misconfigured(f"failed to find resource referenced by paramKind: '{shown}'")
    return row


async def collect_params(attributes: AdmissionAttributes, row: ServedResource, reference: Mapping[str, Any]) -> list[Object]:
    """All objects that a paramRef selects. Raises Misconfigured if there is none and the binding denies that."""
    cluster = attributes.ctx.cluster
    namespace = str(reference.get("namespace") or "")
    if not row.namespaced:
        if namespace:
            raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    else:
        namespace = namespace or attributes.namespace
        if not namespace:
            raise Misconfigured("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    name = reference.get("name")
    if name:
        entry = cluster.store.get(cluster.name, row.storage, object_key(namespace, name))
        entries = [] if entry is None else [entry]
    else:
        selector = from_label_selector_object(reference.get("selector") or {})
        prefix = f"{namespace}/" if namespace else ""
        entries = [e for e in cluster.store.list(cluster.name, row.storage, prefix) if selector.matches(labels(e))]
    if not entries and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [await from_stored(attributes.ctx, row, entry) for entry in entries]
