"""OpenAPI documents: v3 per group version (which kubectl reads) and one v2 document (for older tools), built from the resource
table and the documents of aggregated API servers.

Built-in schemas are from the generated catalogue, those of custom resources from their CRDs. A document is built on first request
and cached by content hash; its URL has the hash, so clients may cache it forever. Documents without custom resources are shared by
all clusters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from muster.apiserver.aggregation import Aggregator
from muster.apiserver.aggregation.openapi import merge_swagger
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.nonresource.descriptions import LIST_FIELDS, OBJECT_FIELDS, described, with_texts
from muster.apiserver.openapi_protobuf import CONTENT_TYPE, MEDIA, encode_document
from muster.apiserver.presentation.negotiation import JSON
from muster.apiserver.registry.builtin_types import definitions
from muster.apiserver.registry.resource import ServedResource, Subresource
from muster.http import Response

Document = dict[str, Any]
_V2, _V2_PROTOBUF = "v2", "v2 protobuf"
_REF = "#/components/schemas/"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_PATCH = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
_WRITE_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_LIST_QUERY = (
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
)
_INDEX_TYPE = "text/plain; charset=utf-8"
"""The index is JSON, but kube-apiserver sets no Content-Type, and Go's HTTP library guesses this one."""
_METHODS = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_ACTIONS = {"get": "get", "list": "list", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}


class OpenApi:
    """The documents of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._built_for = -1
        self._merged_for = -1
        self._documents: dict[str, tuple[bytes, str]] = {}

    def serve(self, ctx: Context) -> Response | None:
        path = ctx.attributes.path.rstrip("/")
        if not path.startswith("/openapi/") or ctx.request.method != "GET":
            return None
        if self._built_for != self._cluster.resources.generation:
            self._documents = {}
            self._built_for = self._cluster.resources.generation
        if self._merged_for != self._cluster.part(Aggregator).openapi_generation:
            for name in _V2, _V2_PROTOBUF:
                self._documents.pop(name, None)
            self._merged_for = self._cluster.part(Aggregator).openapi_generation
        if path == "/openapi/v3":
            return Response(200, orjson.dumps(self._index()), (), _INDEX_TYPE)
        if path == "/openapi/v2":
            wants_protobuf = ctx.accept.startswith(MEDIA)
            body, digest = self._document(_V2_PROTOBUF if wants_protobuf else _V2)
            return self._cacheable(ctx, body, digest, "no-cache", CONTENT_TYPE if wants_protobuf else JSON)
        name = path.removeprefix("/openapi/v3/")
        found = self._of_group_version(name) if path.startswith("/openapi/v3/") else None
        if found is not None:
            body, digest = found
            fresh = ctx.query.get("hash") == digest
            return self._cacheable(ctx, body, digest, "public, immutable" if fresh else "no-cache, private")
        return Response(404) if path.startswith("/openapi/v3/") else None

    @staticmethod
    def _cacheable(ctx: Context, body: bytes, digest: str, policy: str, media: str = JSON) -> Response:
        headers = [("Etag", f'"{digest}"'), ("Cache-Control", policy), ("Vary", "Accept")]
        if ctx.request.headers.get("if-none-match") == f'"{digest}"':
            return Response(304, b"", headers)
        return Response(200, body, headers, media)

    def _of_group_version(self, name: str) -> tuple[bytes, str] | None:
        """The document of a group version; that of the aggregated API server if one serves it."""
        for remote in self._cluster.part(Aggregator).openapi():
            if remote.name == name and remote.document is not None:
                return remote.document
        return self._document(name) if name in self._group_versions() else None

    def _group_versions(self) -> dict[str, list[ServedResource]]:
        found: dict[str, list[ServedResource]] = {}
        for resource in self._cluster.resources:
            found.setdefault(_document_name(resource), []).append(resource)
        return found

    def _index(self) -> Document:
        prefix = self._cluster.prefix
        paths = {}
        for name in self._group_versions():
            paths[name] = self._document(name)[1]
        for remote in self._cluster.part(Aggregator).openapi():
            if remote.document is not None:
                paths[remote.name] = remote.document[1]
        return {
            "paths": {name: {"serverRelativeURL": f"{prefix}/openapi/v3/{name}?hash={digest}"} for name, digest in paths.items()}
        }

    def _document(self, name: str) -> tuple[bytes, str]:
        found = self._documents.get(name)
        if found is None:
            resources = list(self._cluster.resources) if name in (_V2, _V2_PROTOBUF) else self._group_versions()[name]
            parts = self._remote_parts() if name in (_V2, _V2_PROTOBUF) else []
            if parts or any(resource.is_custom for resource in resources):
                found = _rendered(name, resources, parts)
            else:
                found = _BUILTIN.get(name) or _BUILTIN.setdefault(name, _rendered(name, resources))
            self._documents[name] = found
        return found

    def _remote_parts(self) -> list[Document]:
        return [remote.swagger for remote in self._cluster.part(Aggregator).openapi() if remote.swagger is not None]


_BUILTIN: dict[str, tuple[bytes, str]] = {}
"""Documents without custom resources, which are the same in all clusters."""


def _rendered(name: str, resources: list[ServedResource], parts: Iterable[Document] = ()) -> tuple[bytes, str]:
    document = swagger(resources) if name in (_V2, _V2_PROTOBUF) else group_document(resources)
    for part in parts:
        merge_swagger(document, part)
    body = encode_document(document) if name == _V2_PROTOBUF else orjson.dumps(document)
    return body, hashlib.sha256(body).hexdigest().upper()


def _document_name(resource: ServedResource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def component_name(resource: ServedResource) -> str:
    if not resource.is_custom:
        return resource.schema.name
    reversed_group = ".".join(reversed(resource.group.split(".")))
    return f"{reversed_group}.{resource.version}.{resource.kind}"


def group_document(resources: list[ServedResource]) -> Document:
    """The v3 document of one group version."""
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": dict(_paths(resources)),
        "components": {
            "schemas": _components(resources),
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        },
    }


def _paths(resources: Iterable[ServedResource]) -> Iterator[tuple[str, Document]]:
    for resource in resources:
        base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        collection = f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
        if resource.namespaced and "list" in resource.verbs:
            yield f"{base}/{resource.plural}", {"get": _operation(resource, "list")}
        on_collection = {_METHODS[verb]: _operation(resource, verb) for verb in ("list", "create") if verb in resource.verbs}
        if "deletecollection" in resource.verbs:
            on_collection["delete"] = _operation(resource, "delete", collection=True)
        if on_collection:
            yield collection, {**on_collection, "parameters": _path_parameters(resource, named=False)}
        item = {
            _METHODS[verb]: _operation(resource, verb) for verb in ("get", "update", "patch", "delete") if verb in resource.verbs
        }
        if item:
            yield f"{collection}/{{name}}", {**item, "parameters": _path_parameters(resource, named=True)}
        for sub in resource.subresources.values():
            operations = {_METHODS[v]: _operation(resource, v, sub) for v in sub.verbs if v in _METHODS}
            yield (
                f"{collection}/{{name}}/{sub.name}",
                {**operations, "parameters": _path_parameters(resource, named=True)},
            )


def _path_parameters(resource: ServedResource, named: bool) -> list[Document]:
    names = (["name"] if named else []) + (["namespace"] if resource.namespaced else [])
    return [{"name": n, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}} for n in names]


def _operation(resource: ServedResource, verb: str, sub: Subresource | None = None, collection: bool = False) -> Document:
    kind = sub.kind if sub is not None else resource.kind
    group = (sub.group or resource.group) if sub is not None else resource.group
    version = (sub.version or resource.version) if sub is not None else resource.version
    schema = {"$ref": _REF + _answer_name(resource, verb, sub, collection)}
    scope = "Namespaced" if resource.namespaced else ""
    operation: Document = {
        "operationId": _operation_id(resource, verb, scope, kind, sub, collection),
        "tags": [_tag(resource)],
        "responses": {"200": {"description": "OK", "content": {JSON: {"schema": schema}}}, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": "deletecollection" if collection else _ACTIONS[verb],
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
    if verb in ("create", "update", "patch"):
        names = (*_WRITE_QUERY, "force") if verb == "patch" else _WRITE_QUERY
        operation["parameters"] = [_query(n, "boolean" if n == "force" else "string") for n in names]
    elif verb == "list" or collection:
        operation["parameters"] = [_query(n, kind_) for n, kind_ in _LIST_QUERY]
    elif verb == "delete":
        operation["parameters"] = [_query("dryRun"), _query("gracePeriodSeconds", "integer"), _query("propagationPolicy")]
    if verb in ("create", "update"):
        operation["requestBody"] = {"content": {"*/*": {"schema": schema}}, "required": True}
    elif verb == "patch":
        patches = resource.strategy.patch_types
        operation["requestBody"] = {"content": {media: {"schema": {"$ref": _REF + _PATCH}} for media in patches}, "required": True}
    elif verb == "delete":
        operation["requestBody"] = {"content": {"*/*": {"schema": {"$ref": _REF + _DELETE_OPTIONS}}}}
    return operation


def _query(name: str, kind: str = "string") -> Document:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _tag(resource: ServedResource) -> str:
    return f"{(resource.group or 'core').split('.')[0]}_{resource.version}"


_ID_VERBS = {"get": "read", "list": "list", "create": "create", "update": "replace", "patch": "patch", "delete": "delete"}


def _operation_id(resource: ServedResource, verb: str, scope: str, kind: str, sub: Subresource | None, collection: bool) -> str:
    group = "".join(part.capitalize() for part in (resource.group or "core").removesuffix(".k8s.io").split("."))
    name = resource.kind + (sub.name.capitalize() if sub is not None else "")
    prefix = "deleteCollection" if collection else _ID_VERBS[verb]
    return f"{prefix}{group}{resource.version.capitalize()}{scope}{name}"


def _answer_name(resource: ServedResource, verb: str, sub: Subresource | None, collection: bool) -> str:
    if collection:
        return _STATUS
    if sub is not None and sub.version:
        found = _definition_for(sub.group, sub.version, sub.kind)
        if found is not None:
            return found
    if verb == "list":
        return component_name(resource) + "List"
    if verb == "delete":
        return _STATUS
    return component_name(resource)


def _definition_for(group: str, version: str, kind: str) -> str | None:
    expected = {"group": group, "version": version, "kind": kind}
    for name, raw in definitions().raw.items():
        if expected in raw.get("x-kubernetes-group-version-kind", ()):
            return name
    return None


def _components(resources: Iterable[ServedResource]) -> Document:
    """All schemas that the document uses, directly or by reference."""
    found: Document = {}
    pending = [_OBJECT_META, _LIST_META, _STATUS, _DELETE_OPTIONS]
    for resource in resources:
        name = component_name(resource)
        if resource.is_custom:
            found[name] = custom_component(resource)
            found[name + "List"] = _list_component(resource, name)
        else:
            pending.append(name)
            found[name + "List"] = _list_component(resource, name)
        for sub in resource.subresources.values():
            if sub.version:
                other = _definition_for(sub.group, sub.version, sub.kind)
                if other is not None:
                    pending.append(other)
    raw = definitions().raw
    while pending:
        name = pending.pop()
        if name in found or name not in raw:
            continue
        found[name] = described(name, raw[name])
        pending.extend(_references(raw[name]))
    found.setdefault(_PATCH, {"type": "object"})
    return dict(sorted(found.items()))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _group_version_kind(resource: ServedResource, kind: str) -> list[Document]:
    return [{"group": resource.group, "version": resource.version, "kind": kind}]


def _list_component(resource: ServedResource, name: str) -> Document:
    text = {"type": "string"}
    raw = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"$ref": _REF + _LIST_META},
            "items": {"type": "array", "items": {"$ref": _REF + name}},
        },
        "x-kubernetes-group-version-kind": _group_version_kind(resource, resource.list_kind),
    }
    return with_texts(raw, {"": f"A list of {resource.kind} objects.", **LIST_FIELDS})


def custom_component(resource: ServedResource) -> Document:
    """The schema of a custom resource with apiVersion, kind and metadata, also for embedded resources."""
    raw = _with_embedded(resource.schema.raw)
    properties = {**raw.get("properties", {}), **_type_and_metadata()}
    raw |= {
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": _group_version_kind(resource, resource.kind),
    }
    return raw


def _type_and_metadata() -> Document:
    text = {"type": "string"}
    fields: dict[str, Document] = {"apiVersion": text, "kind": text, "metadata": {"allOf": [{"$ref": _REF + _OBJECT_META}]}}
    return {field: {**node, "description": OBJECT_FIELDS[field]} for field, node in fields.items()}


def _with_embedded(node: Mapping[str, Any]) -> Document:
    """A structural schema in which embedded resources have apiVersion, kind and metadata."""
    found = dict(node)
    if "properties" in node:
        found["properties"] = {name: _with_embedded(child) for name, child in node["properties"].items()}
    for inside in ("items", "additionalProperties"):
        if isinstance(node.get(inside), Mapping):
            found[inside] = _with_embedded(node[inside])
    if node.get("x-kubernetes-embedded-resource"):
        found["properties"] = {**found.get("properties", {}), **_type_and_metadata()}
        found["required"] = list(dict.fromkeys((*node.get("required", ()), "kind", "apiVersion")))
    return found


def swagger(resources: list[ServedResource]) -> Document:
    """The v2 document of all groups."""
    document = group_document(resources)
    paths = {
        path: {m: _v2_operation(o) if m != "parameters" else _v2_parameters(o) for m, o in item.items()}
        for path, item in document["paths"].items()
    }
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": paths,
        "definitions": {name: _v2_schema(schema) for name, schema in document["components"]["schemas"].items()},
        "securityDefinitions": document["components"]["securitySchemes"],
    }


def _v2_parameters(parameters: list[Document]) -> list[Document]:
    return [{key: value for key, value in p.items() if key != "schema"} | p["schema"] for p in parameters]


def _v2_operation(operation: Document) -> Document:
    converted = {key: value for key, value in operation.items() if key not in ("requestBody", "responses", "parameters")}
    converted["parameters"] = _v2_parameters(operation.get("parameters", []))
    body = operation.get("requestBody")
    if body is not None:
        media = list(body["content"])
        schema = _v2_schema(next(iter(body["content"].values()))["schema"])
        converted["consumes"] = media
        converted["parameters"].append({"name": "body", "in": "body", "required": body.get("required", False), "schema": schema})
    converted["produces"] = [JSON]
    converted["responses"] = {
        code: {"description": answer["description"]}
        | ({"schema": _v2_schema(answer["content"][JSON]["schema"])} if "content" in answer else {})
        for code, answer in operation["responses"].items()
    }
    return converted


_V3_ONLY = frozenset({"nullable", "oneOf", "anyOf", "not", "allOf"})


def _v2_schema(schema: Any) -> Any:
    """A v3 schema converted to v2: references renamed, unsupported keywords left out."""
    if isinstance(schema, list):
        return [_v2_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if isinstance(schema.get("$ref"), str):
        return {"$ref": schema["$ref"].replace(_REF, "#/definitions/")}
    if len(schema.get("allOf", ())) == 1 and "$ref" in schema["allOf"][0]:
        return _v2_schema(schema["allOf"][0])
    converted: Document = {}
    for key, value in schema.items():
        if key == "properties":
            converted[key] = {name: _v2_schema(child) for name, child in value.items()}
        elif key not in _V3_ONLY and key != "default":
            converted[key] = _v2_schema(value) if key in ("items", "additionalProperties") else value
    if "oneOf" in schema and "type" not in schema:
        converted["type"] = "string"
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("nullable"):
        converted.pop("required", None)
    return converted
