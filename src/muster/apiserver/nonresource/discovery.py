"""Discovery: the groups, versions and resources of a cluster, in the legacy and the aggregated form (`apidiscovery.k8s.io/v2`).

Documents are built from the resource table and the aggregated API servers, and cached until these change.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from muster.apiserver.aggregation import Aggregator
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.errors import not_acceptable
from muster.apiserver.presentation.negotiation import ACCEPTED, JSON, YAML, accept_clauses, check_object, negotiate_object
from muster.apiserver.presentation.responses import respond
from muster.apiserver.registry.group_versions import GroupVersion, version_priority
from muster.apiserver.registry.resource import ServedResource
from muster.http import Response

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BUILTIN_GROUPS = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
"""Ordered by kube-apiserver's group priorities."""


def resource_row(resource: ServedResource) -> dict[str, Any]:
    """A resource in the form of aggregated discovery."""
    row: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    subs = [
        {
            "subresource": sub.name,
            "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
            "verbs": list(sub.verbs),
        }
        for sub in sorted(resource.subresources.values(), key=lambda s: s.name)
    ]
    if subs:
        row["subresources"] = subs
    return row


class Discovery:
    """The discovery documents of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._built_for: tuple[int, int] = (-1, -1)
        self._groups: list[GroupVersion] = []
        self._cached: dict[str, tuple[bytes, str]] = {}

    def group_versions(self) -> list[GroupVersion]:
        """Group versions by priority; the versions of a group are adjacent, the preferred one first."""
        current = (self._cluster.resources.generation, self._cluster.part(Aggregator).generation)
        if current != self._built_for:
            self._groups = self._build()
            self._cached = {}
            self._built_for = current
        return self._groups

    def _build(self) -> list[GroupVersion]:
        found: dict[tuple[str, str], GroupVersion] = {}
        for resource in self._cluster.resources:
            key = (resource.group, resource.version)
            group_version = found.setdefault(key, GroupVersion(*key, qualifies_kinds=resource.is_custom))
            group_version.resources.append(resource_row(resource))
        for remote in self._cluster.part(Aggregator).group_versions():
            found[(remote.group, remote.version)] = remote
        rank = {group: index for index, group in enumerate(BUILTIN_GROUPS)}
        for group_version in found.values():
            group_version.resources.sort(key=lambda row: str(row["resource"]))
        weight: dict[str, int] = {}
        for gv in found.values():
            weight[gv.group] = max(weight.get(gv.group, 0), gv.priorities[0])
        return sorted(
            found.values(),
            key=lambda gv: (
                rank.get(gv.group, len(rank)),
                -weight[gv.group],
                gv.group,
                -gv.priorities[1],
                *version_priority(gv.version),
            ),
        )

    async def serve(self, ctx: Context) -> Response | None:
        parts = ctx.attributes.path.removesuffix("/").split("/")[1:]
        if ctx.request.method not in ("GET", "HEAD") or not parts or parts[0] not in ("api", "apis"):
            return None
        if parts in (["api"], ["apis"]):
            check_object(ctx.accept)
            aggregated = _wants_aggregated(ctx.accept)
            if aggregated:
                return self._aggregated(ctx, core=parts == ["api"])
            return self._answer(ctx, self._api_versions(ctx) if parts == ["api"] else self._group_list())
        if parts[0] == "api" and len(parts) == 2:
            return self._resources(ctx, "", parts[1])
        if parts[0] == "apis" and len(parts) == 2:
            group = self._group(parts[1])
            return None if group is None else self._answer(ctx, {"kind": "APIGroup", "apiVersion": "v1", **group})
        if parts[0] == "apis" and len(parts) == 3:
            return self._resources(ctx, parts[1], parts[2])
        return None

    def _answer(self, ctx: Context, document: dict[str, Any]) -> Response:
        check_object(ctx.accept)
        return respond(ctx, 200, orjson.dumps(document), negotiate_object(ctx.accept))

    def _aggregated(self, ctx: Context, core: bool) -> Response:
        name = "core" if core else "groups"
        groups = self.group_versions()
        if name not in self._cached:
            body = orjson.dumps(self._aggregated_document([gv for gv in groups if (gv.group == "") == core]))
            self._cached[name] = (body, '"' + hashlib.sha256(body).hexdigest().upper() + '"')
        body, etag = self._cached[name]
        headers = [("Vary", "Accept"), ("ETag", etag), ("Cache-Control", "public")]
        if ctx.request.headers.get("if-none-match") == etag:
            return Response(304, b"", headers)
        return Response(200, body, headers, _AGGREGATED)

    @staticmethod
    def _aggregated_document(groups: list[GroupVersion]) -> dict[str, Any]:
        items: dict[str, dict[str, Any]] = {}
        for gv in groups:
            resources = [_with_kind(row, gv) for row in gv.resources] if gv.qualifies_kinds else gv.resources
            version: dict[str, Any] = {"version": gv.version, "freshness": "Stale" if gv.stale else "Current"}
            if resources:
                version["resources"] = resources
            meta = {"name": gv.group} if gv.group else {}
            items.setdefault(gv.group, {"metadata": meta, "versions": []})["versions"].append(version)
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": list(items.values()),
        }

    def _api_versions(self, ctx: Context) -> dict[str, Any]:
        address = ctx.request.headers.get("host") or ""
        return {
            "kind": "APIVersions",
            "versions": [gv.version for gv in self.group_versions() if not gv.group],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def _group(self, name: str) -> dict[str, Any] | None:
        versions = [gv for gv in self.group_versions() if gv.group == name]
        if not versions or not name:
            return None
        rows = [{"groupVersion": f"{name}/{gv.version}", "version": gv.version} for gv in versions]
        return {"name": name, "versions": rows, "preferredVersion": rows[0]}

    def _group_list(self) -> dict[str, Any]:
        names = dict.fromkeys(gv.group for gv in self.group_versions() if gv.group)
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in names]}

    def _resources(self, ctx: Context, group: str, version: str) -> Response | None:
        found = next((gv for gv in self.group_versions() if (gv.group, gv.version) == (group, version)), None)
        if found is None:
            return None
        rows: list[dict[str, Any]] = []
        for row in found.resources:
            rows.append(_legacy_row(row))
            rows += [_legacy_subresource(row, sub) for sub in row.get("subresources", ())]
        rows.sort(key=lambda r: str(r["name"]))
        document: dict[str, Any] = {"kind": "APIResourceList"}
        if group:  # as upstream, not in the list of the core group
            document["apiVersion"] = "v1"
        document |= {"groupVersion": f"{group}/{version}" if group else version, "resources": rows}
        return self._answer(ctx, document)


def _with_kind(row: dict[str, Any], gv: GroupVersion) -> dict[str, Any]:
    kind = row["responseKind"]
    full = {"group": kind["group"] or gv.group, "version": kind["version"] or gv.version, "kind": kind["kind"]}
    filled = {**row, "responseKind": full}
    if "subresources" in row:
        filled["subresources"] = [_with_kind(sub, gv) for sub in row["subresources"]]
    return filled


def _legacy_row(row: dict[str, Any]) -> dict[str, Any]:
    legacy: dict[str, Any] = {
        "name": row["resource"],
        "singularName": row["singularResource"],
        "namespaced": row["scope"] == "Namespaced",
        "kind": row["responseKind"]["kind"],
        "verbs": row["verbs"],
    }
    for field_name in ("shortNames", "categories"):
        if field_name in row:
            legacy[field_name] = row[field_name]
    return legacy


def _legacy_subresource(row: dict[str, Any], sub: dict[str, Any]) -> dict[str, Any]:
    kind = sub["responseKind"]
    legacy: dict[str, Any] = {
        "name": f"{row['resource']}/{sub['subresource']}",
        "singularName": "",
        "namespaced": row["scope"] == "Namespaced",
    }
    if kind["version"]:
        legacy |= {"group": kind["group"], "version": kind["version"]} if kind["group"] else {"version": kind["version"]}
    return legacy | {"kind": kind["kind"], "verbs": sub["verbs"]}


def _wants_aggregated(accept: str) -> bool:
    """Whether the client prefers aggregated discovery. Raises ApiError 406 if it accepts only v2beta1."""
    for clause in accept_clauses(accept):
        if clause.get("as") == "APIGroupDiscoveryList":
            if clause.get("v") == "v2" and clause.media == JSON:
                return True
        elif clause.media in ("*/*", JSON, YAML):
            return False
    if accept:
        raise not_acceptable(ACCEPTED)
    return False
