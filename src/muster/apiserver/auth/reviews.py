"""Reviews: kinds that are asked, answered and never stored. Whose token is this, may this subject do that, what may I do?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver import errors
from muster.apiserver.attributes import Attributes
from muster.apiserver.auth.identity import User
from muster.apiserver.bodies import decode_body
from muster.apiserver.context import Context
from muster.apiserver.negotiation import negotiate
from muster.apiserver.presentation import respond_object
from muster.apiserver.registry.resource import Object, Resource
from muster.apiserver.request import write_options
from muster.http import Response
from muster.kube.fielderrors import FieldError, invalid

_AUTHORIZATION = "authorization.k8s.io"


async def _asked(ctx: Context, resource: Resource) -> Object:
    negotiate(ctx.accept, transforms=False)
    obj = await decode_body(ctx, resource, write_options(ctx.query, "CreateOptions"))
    meta = obj.get("metadata") or {}
    if resource.namespaced:
        namespace = ctx.attributes.namespace
        if meta.get("namespace", namespace) != namespace:
            raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = namespace
    obj["metadata"] = meta
    return obj


def _answer(ctx: Context, obj: Object) -> Response:
    return respond_object(ctx, None, obj, 201, negotiate(ctx.accept, transforms=False))


async def token_review(ctx: Context, resource: Resource) -> Response:
    obj = await _asked(ctx, resource)
    spec = obj.get("spec") or {}
    token, audiences = spec.get("token", ""), spec.get("audiences") or []
    if not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    status: dict[str, Any] = {}
    try:
        found = await ctx.cluster.access.token_identity(token, audiences)
    except errors.ApiError:
        found = None
    if found is None:
        status = {"user": {}, "error": "invalid bearer token"}
    else:
        user, accepted = found
        status = {"authenticated": True, "user": user.info()}
        if accepted or not audiences:
            status["audiences"] = accepted or list(ctx.cluster.access.audiences)
    obj["status"] = status
    return _answer(ctx, obj)


async def self_subject_review(ctx: Context, resource: Resource) -> Response:
    obj = await _asked(ctx, resource)
    obj["metadata"]["creationTimestamp"] = ctx.now()
    obj["status"] = {"userInfo": ctx.user.info()}
    return _answer(ctx, obj)


async def subject_access_review(ctx: Context, resource: Resource) -> Response:
    obj = await _asked(ctx, resource)
    spec = obj.get("spec") or {}
    problems = _spec_problems(spec)
    if not spec.get("user") and not spec.get("groups"):
        problems.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    _refuse(resource, problems)
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    user = User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)
    return _decided(ctx, obj, user, spec)


async def local_subject_access_review(ctx: Context, resource: Resource) -> Response:
    obj = await _asked(ctx, resource)
    spec = obj.get("spec") or {}
    problems = _spec_problems(spec, local=True)
    if not spec.get("user") and not spec.get("groups"):
        problems.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    namespace = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if spec.get("resourceAttributes") and namespace != ctx.attributes.namespace:
        raise errors.bad_request("spec.resourceAttributes.namespace must match metadata.namespace")
    _refuse(resource, problems)
    user = User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()))
    return _decided(ctx, obj, user, spec)


async def self_subject_access_review(ctx: Context, resource: Resource) -> Response:
    obj = await _asked(ctx, resource)
    spec = obj.get("spec") or {}
    _refuse(resource, _spec_problems(spec))
    return _decided(ctx, obj, ctx.user, spec)


def _spec_problems(spec: Mapping[str, Any], local: bool = False) -> list[FieldError]:
    path, with_resource = spec.get("nonResourceAttributes"), "resourceAttributes" in spec
    field = "spec.nonResourceAttributes"
    if with_resource and path is not None:
        return [invalid(field, path, "cannot be specified in combination with resourceAttributes")]
    if not with_resource and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, text)]
    if local and path is not None:
        return [invalid(field, path, "disallowed on this kind of request")]
    return []


def _refuse(resource: Resource, problems: list[FieldError]) -> None:
    if problems:
        raise errors.invalid_object(resource, "", problems)


def _attributes(spec: Mapping[str, Any]) -> Attributes:
    asked = spec.get("resourceAttributes")
    if asked is None:
        path = spec["nonResourceAttributes"]
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    return Attributes(
        asked.get("verb", ""),
        asked.get("group", ""),
        asked.get("version", ""),
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
    )


def _decided(ctx: Context, obj: Object, user: User, spec: Mapping[str, Any]) -> Response:
    decision = ctx.cluster.access.authorize(user, _attributes(spec))
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    obj["status"] = status
    return _answer(ctx, obj)


async def self_subject_rules_review(ctx: Context, resource: Resource) -> Response:
    obj = await _asked(ctx, resource)
    namespace = (obj.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise errors.bad_request("no namespace on request")
    resource_rules: list[Object] = []
    path_rules: list[Object] = []
    for rule in ctx.cluster.access.rbac.rules_for(ctx.user, namespace):
        raw = rule.raw
        if raw.get("resources"):
            shown = {"verbs": raw.get("verbs"), "apiGroups": raw.get("apiGroups"), "resources": raw["resources"]}
            if raw.get("resourceNames"):
                shown["resourceNames"] = raw["resourceNames"]
            resource_rules.append(shown)
        if raw.get("nonResourceURLs"):
            path_rules.append({"verbs": raw.get("verbs"), "nonResourceURLs": raw["nonResourceURLs"]})
    obj["status"] = {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}
    return _answer(ctx, obj)


HANDLERS = {
    "authentication.k8s.io/tokenreviews": token_review,
    "authentication.k8s.io/selfsubjectreviews": self_subject_review,
    f"{_AUTHORIZATION}/subjectaccessreviews": subject_access_review,
    f"{_AUTHORIZATION}/localsubjectaccessreviews": local_subject_access_review,
    f"{_AUTHORIZATION}/selfsubjectaccessreviews": self_subject_access_review,
    f"{_AUTHORIZATION}/selfsubjectrulesreviews": self_subject_rules_review,
}
