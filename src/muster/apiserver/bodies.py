"""Request bodies: JSON, YAML or protobuf is decoded to an object with defaults.

Built-in types are decoded as into their Go structs (unknown fields dropped, zero values normalized); custom resources are pruned
and defaulted by their schema. Unknown and duplicate fields are errors (fieldValidation Strict), warnings (Warn) or ignored
(Ignore).
"""

from __future__ import annotations

from typing import Any

import orjson

from muster.apiserver import errors
from muster.apiserver.context import Context
from muster.apiserver.decode import DecodeError, Unrecognized, protobuf, strict
from muster.apiserver.decode.depth import EXCEEDED, may_be_deep, too_deep
from muster.apiserver.presentation.negotiation import JSON, PROTOBUF, YAML, media_type
from muster.apiserver.registry.builtin_types import definitions
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import WriteOptions
from muster.kube.fielderrors import invalid as invalid_field
from muster.kube.yaml import YAMLError, load
from muster.machinery.golang.json import make_numbers_whole
from muster.machinery.objects import Object

_BUILTIN_BODIES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_CUSTOM_BODIES = "application/json, application/yaml"
_MAX_UNKNOWN_FIELDS = 1_000
"""Maximum number of unknown fields in an answer."""
_OPTIONS_SCHEMA = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


async def decode_body(ctx: Context, resource: ServedResource, options: WriteOptions) -> Object:
    """The object of a create or update, in the version of the resource."""
    if ctx.is_large():
        return await ctx.run_in_worker(_decode, ctx, resource, options)
    return _decode(ctx, resource, options)


def _decode(ctx: Context, resource: ServedResource, options: WriteOptions) -> Object:
    obj, duplicates = _parse(ctx, resource, options.field_validation)
    _check_type(ctx, resource, obj)
    return _finish(ctx, resource, obj, options, duplicates)


def decode_patched(ctx: Context, resource: ServedResource, obj: Object, options: WriteOptions) -> Object:
    """Process a patched object like a decoded one: field validation, normal form, defaults."""
    return _finish(ctx, resource, obj, options, [])


def _finish(ctx: Context, resource: ServedResource, obj: Object, options: WriteOptions, duplicates: list[str]) -> Object:
    if not isinstance(obj.get("metadata", {}), dict):
        kind = strict.json_kind(obj["metadata"])
        problem = f"json: cannot unmarshal {kind} into Go struct field {resource.kind}.metadata of type v1.ObjectMeta"
        raise errors.cannot_decode(resource, problem)
    try:
        obj, unknown = resource.strategy.decode(obj)
    except DecodeError as error:
        raise errors.cannot_decode(resource, str(error)) from None
    if (unknown or duplicates) and options.field_validation != "Ignore":
        typed = not resource.is_custom and media_type(ctx.request.headers.get("content-type") or "") == JSON
        problems = strict.strict_warnings(unknown[:_MAX_UNKNOWN_FIELDS], duplicates, ctx.request.body if typed else None)
        if options.field_validation == "Strict":
            raise errors.cannot_decode(resource, f"strict decoding error: {', '.join(problems)}")
        for text in problems:
            ctx.warn(text)
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    resource.strategy.default(obj)
    return obj


def _parse(ctx: Context, resource: ServedResource, validation: str) -> tuple[Object, list[str]]:
    media = media_type(ctx.request.headers.get("content-type") or "")
    body = ctx.request.body
    try:
        if media == JSON:
            return strict.decode_json(body, validation != "Ignore")
        if media == YAML:
            return _parse_yaml(body)
        if media == PROTOBUF and not resource.is_custom:
            obj = protobuf.decode(body, resource.api_version, resource.kind)
            if may_be_deep(body) and too_deep(obj):
                raise DecodeError(EXCEEDED)
            return obj, []
    except Unrecognized as error:
        raise errors.bad_request(error.message(resource.kind)) from None
    except DecodeError as error:
        raise errors.cannot_decode(resource, str(error)) from None
    raise errors.unsupported_media_type(_CUSTOM_BODIES if resource.is_custom else _BUILTIN_BODIES)


def _parse_yaml(body: bytes) -> tuple[Object, list[str]]:
    duplicates: list[str] = []
    try:
        obj = load(body, duplicates)
    except YAMLError as error:
        raise errors.bad_request(f"error parsing YAML: {error}") from None
    if too_deep(obj):
        raise errors.bad_request(f"error parsing YAML: {EXCEEDED}")
    if not isinstance(obj, dict):
        raise errors.bad_request("the body of the request is not an object")
    return obj, duplicates


def _check_type(ctx: Context, resource: ServedResource, obj: Object) -> None:
    kind, version = obj.get("kind"), obj.get("apiVersion")
    for field, value in (("kind", kind), ("apiVersion", version)):
        if value is not None and not isinstance(value, str):
            found = strict.json_kind(value)
            problem = f"json: cannot unmarshal {found} into Go struct field .{field} of type string"
            raise errors.bad_request(f"couldn't get version/kind; json parse error: {problem}")
    if resource.is_custom:
        if not kind:
            text = orjson.dumps(obj).decode()
            shown = text if len(text) <= 30 else f"{text[:30]} ..."
            problem = f"Object 'Kind' is missing in '{text}' ({shown})"
            raise errors.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {problem}")
        if not version:
            text = orjson.dumps(obj).decode()
            raise errors.cannot_decode(resource, f"Object 'apiVersion' is missing in '{text}'")
    version, kind = version or resource.api_version, kind or resource.kind
    if (version, kind) != (resource.api_version, resource.kind):
        meta = obj.get("metadata")
        name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
        raise _type_mismatch(ctx, resource, version, kind, name)


def _type_mismatch(ctx: Context, resource: ServedResource, api_version: str, kind: str, name: str) -> errors.ApiError:
    """The error for a body of another type: an unknown one, another version, or another kind."""
    group, _, version = api_version.rpartition("/")
    named = ctx.cluster.resources.by_kind(group, version, kind)
    if api_version != resource.api_version and (resource.is_custom or _same_type(named, resource)):
        return errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
        )
    if resource.is_custom:
        return errors.invalid(resource.group, kind, name, [invalid_field("kind", kind, f"must be {resource.kind}")])
    problem = f"converting ({version}.{kind}) to ({resource.go_type}): unknown conversion"
    if named is None or named.is_custom:
        problem = errors.not_registered(kind, api_version)
    return errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {problem}')


def _same_type(named: ServedResource | None, resource: ServedResource) -> bool:
    return named is not None and named.go_type == resource.go_type


def decode_yaml(body: bytes) -> Object:
    """The body of an apply patch (JSON is YAML)."""
    is_json = True
    try:
        obj: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        is_json = False
        try:
            obj = load(body)
        except YAMLError as error:
            raise errors.bad_request(f"error decoding YAML: {error}") from None
    if (not is_json or may_be_deep(body)) and too_deep(obj):
        raise errors.bad_request(f"error decoding YAML: {EXCEEDED}")
    if not isinstance(obj, dict):
        raise errors.bad_request("error decoding YAML: the patch is not an object")
    make_numbers_whole(obj)
    return obj


def decode_options(ctx: Context) -> Object:
    """The DeleteOptions in a DELETE body."""
    media = media_type(ctx.request.headers.get("content-type") or "")
    try:
        if media == PROTOBUF:
            obj = protobuf.decode(ctx.request.body, "meta.k8s.io/v1", "DeleteOptions")
        elif media == YAML:
            obj = _parse_yaml(ctx.request.body)[0]
        elif media == JSON:
            obj = strict.decode_json(ctx.request.body)[0]
        else:
            raise errors.unsupported_media_type(_BUILTIN_BODIES)
        if obj.get("kind") not in (None, "", "DeleteOptions"):
            raise errors.bad_request(errors.not_registered(obj["kind"], obj.get("apiVersion") or "v1"))
        return strict.decode_typed(obj, definitions()[_OPTIONS_SCHEMA])[0]
    except DecodeError as error:
        raise errors.bad_request(str(error)) from None
