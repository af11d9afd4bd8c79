"""Reviews, which are answered and never stored: TokenReview, SelfSubjectReview, SubjectAccessReview and its variants, rules
reviews."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from muster.apiserver import errors
from muster.apiserver.auth.access import Access, TokenRefused
from muster.apiserver.bodies import decode_body
from muster.apiserver.context import Context
from muster.apiserver.handlers.managed_fields import track_managed_fields
from muster.apiserver.object_meta import in_type_order
from muster.apiserver.presentation.negotiation import negotiate_object
from muster.apiserver.presentation.responses import respond_object
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import write_options
from muster.http import Response
from muster.kube.access_reviews import check_attributes, shown_path
from muster.kube.fielderrors import FieldError, Rendered, invalid
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import Object

_AUTHORIZATION = "authorization.k8s.io"


async def _decode_review(ctx: Context, resource: ServedResource) -> Object:
    negotiate_object(ctx.accept)
    options = write_options(ctx.query, "CreateOptions")
    obj = await decode_body(ctx, resource, options)
    meta = obj.get("metadata") or {}
    if resource.namespaced:
        namespace = ctx.attributes.namespace
        if meta.get("namespace", namespace) != namespace:
            raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = namespace
    obj["metadata"] = meta
    if ctx.is_large():
        await ctx.run_in_worker(track_managed_fields, ctx, resource, None, obj, options)
    else:
        track_managed_fields(ctx, resource, None, obj, options)
    return obj


def _respond(ctx: Context, obj: Object) -> Response:
    return respond_object(ctx, None, obj, 201, negotiate_object(ctx.accept))


async def token_review(ctx: Context, resource: ServedResource) -> Response:
    obj = await _decode_review(ctx, resource)
    spec = obj.get("spec") or {}
    token, audiences = spec.get("token", ""), spec.get("audiences") or []
    if not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    status: dict[str, Any] = {}
    problem, found = "invalid bearer token", None
    try:
        found = await ctx.cluster.part(Access).token_identity(token, audiences)
    except TokenRefused as refused:
        problem = f"[{problem}, {refused.problem}]"
    except errors.ApiError:
        pass
    if found is None:
        status = {"user": {}, "error": problem}
    else:
        user, accepted = found
        status = {"authenticated": True, "user": user.document()}
        if accepted or not audiences:
            status["audiences"] = accepted or list(ctx.cluster.part(Access).audiences)
    obj["status"] = status
    return _respond(ctx, obj)


async def self_subject_review(ctx: Context, resource: ServedResource) -> Response:
    obj = await _decode_review(ctx, resource)
    obj["metadata"] = {"creationTimestamp": ctx.now()}
    obj["status"] = {"userInfo": ctx.user.document()}
    return _respond(ctx, obj)


async def subject_access_review(ctx: Context, resource: ServedResource) -> Response:
    obj = await _decode_review(ctx, resource)
    spec = obj.get("spec") or {}
    _raise_invalid(check_attributes(spec) + _subject_problems(spec) + _metadata_problems(obj))
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    user = UserInfo(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)
    return _respond_decision(ctx, obj, user, spec)


async def local_subject_access_review(ctx: Context, resource: ServedResource) -> Response:
    obj = await _decode_review(ctx, resource)
    spec = obj.get("spec") or {}
    problems = check_attributes(spec) + _subject_problems(spec) + _metadata_problems(obj, namespaced=True)
    resource_attributes, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource_attributes is not None and resource_attributes.get("namespace", "") != ctx.attributes.namespace:
        problem = invalid(
            "spec.resourceAttributes.namespace", resource_attributes.get("namespace", ""), "must match metadata.namespace"
        )
        problems.append(problem)
    if path is not None:
        problems.append(invalid("spec.nonResourceAttributes", shown_path(path), "disallowed on this kind of request"))
    _raise_invalid(problems)
    user = UserInfo(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()))
    return _respond_decision(ctx, obj, user, spec)


async def self_subject_access_review(ctx: Context, resource: ServedResource) -> Response:
    obj = await _decode_review(ctx, resource)
    spec = obj.get("spec") or {}
    _raise_invalid(check_attributes(spec) + _metadata_problems(obj))
    return _respond_decision(ctx, obj, ctx.user, spec)


def _subject_problems(spec: Mapping[str, Any]) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _metadata_problems(obj: Object, namespaced: bool = False) -> list[FieldError]:
    allowed = {"managedFields", "namespace"} if namespaced else {"managedFields"}
    meta = obj["metadata"]
    if meta.keys() <= allowed:
        return []
    text = "must be empty except for namespace" if namespaced else "must be empty"
    return [invalid("metadata", Rendered(orjson.dumps(in_type_order(meta)).decode()), text)]


def _raise_invalid(problems: list[FieldError]) -> None:
    """Raise the validation errors of a review. As upstream, the error has no kind."""
    if problems:
        raise errors.invalid(_AUTHORIZATION, "", "", problems)


def _respond_decision(ctx: Context, obj: Object, user: UserInfo, spec: Mapping[str, Any]) -> Response:
    decision = ctx.cluster.rules.authorize(user, AccessAttributes.decode(spec))
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    obj["status"] = status
    return _respond(ctx, obj)


async def self_subject_rules_review(ctx: Context, resource: ServedResource) -> Response:
    obj = await _decode_review(ctx, resource)
    namespace = (obj.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise errors.bad_request("no namespace on request")
    resource_rules: list[Object] = []
    path_rules: list[Object] = []
    for rule in ctx.cluster.part(Access).rbac.rules_for(ctx.user, namespace):
        raw = rule.raw
        if raw.get("resources"):
            shown = {"verbs": raw.get("verbs"), "apiGroups": raw.get("apiGroups"), "resources": raw["resources"]}
            if raw.get("resourceNames"):
                shown["resourceNames"] = raw["resourceNames"]
            resource_rules.append(shown)
        if raw.get("nonResourceURLs"):
            path_rules.append({"verbs": raw.get("verbs"), "nonResourceURLs": raw["nonResourceURLs"]})
    obj["metadata"] = {}
    obj["status"] = {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}
    return _respond(ctx, obj)


HANDLERS = {
    "authentication.k8s.io/tokenreviews": token_review,
    "authentication.k8s.io/selfsubjectreviews": self_subject_review,
    f"{_AUTHORIZATION}/subjectaccessreviews": subject_access_review,
    f"{_AUTHORIZATION}/localsubjectaccessreviews": local_subject_access_review,
    f"{_AUTHORIZATION}/selfsubjectaccessreviews": self_subject_access_review,
    f"{_AUTHORIZATION}/selfsubjectrulesreviews": self_subject_rules_review,
}
