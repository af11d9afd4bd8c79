"""Reviews of the caller's own access, answered by the gateway: `kubectl auth can-i` and `kubectl auth whoami`.

A cluster would answer for the gateway's account. So the gateway answers a SelfSubjectAccessReview with its own decision, and a
SelfSubjectReview with the caller's identity on the hub. The rules of a user cannot be listed: the hub has no API for another
user's rules without permission to impersonate everybody. A SelfSubjectRulesReview therefore contains what the gateway grants by
itself, and is marked as incomplete. Bodies are JSON, YAML or protobuf, which Go clients send; answers are JSON, which all clients
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
import orjson

from muster.apiserver import errors
from muster.apiserver.decode import DecodeError, protobuf
from muster.gateway.authorization.discovery import PATHS
from muster.http import BodyRefused, BodyStream, Request, Response
from muster.kube.access_reviews import check_attributes
from muster.kube.request_info import RequestInfo
from muster.kube.yaml import YAMLError, load
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessDecision
from muster.machinery.objects import Object

T = TypeVar("T")
AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"
JSON: Final = "application/json"
MAX_BODY_SIZE: Final = 64 * 1024
BODY_TIMEOUT: Final = 10.0
_MEDIA: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

Decide = Callable[[UserInfo, str, RequestInfo], Awaitable[AccessDecision]]
"""Whether a user may send such a request to a cluster; raises ApiError if there is no decision."""


class _Selector(msgspec.Struct, omit_defaults=True):
    rawSelector: str = ""


class _ResourceAttributes(msgspec.Struct, omit_defaults=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    fieldSelector: _Selector | None = None
    labelSelector: _Selector | None = None


class _NonResourceAttributes(msgspec.Struct, omit_defaults=True):
    path: str = ""
    verb: str = ""


class _AccessSpec(msgspec.Struct, omit_defaults=True):
    resourceAttributes: _ResourceAttributes | None = None
    nonResourceAttributes: _NonResourceAttributes | None = None


class _AccessReview(msgspec.Struct):
    spec: _AccessSpec = msgspec.field(default_factory=_AccessSpec)


class _RulesSpec(msgspec.Struct, omit_defaults=True):
    namespace: str = ""


class _RulesReview(msgspec.Struct):
    spec: _RulesSpec = msgspec.field(default_factory=_RulesSpec)


_KINDS: Final[Mapping[tuple[str, str], str]] = {
    (AUTHORIZATION, "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    (AUTHORIZATION, "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    (AUTHENTICATION, "selfsubjectreviews"): "SelfSubjectReview",
}
SELF_REVIEW_RULES: Final = (
    {
        "verbs": ["create"],
        "apiGroups": [AUTHORIZATION],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    },
    {"verbs": ["create"], "apiGroups": [AUTHENTICATION], "resources": ["selfsubjectreviews"]},
)
"""Rules that require no virtual verb."""


def is_self_review(inner: RequestInfo) -> bool:
    """True for every version of these APIs: none of them may be answered for the gateway's account."""
    return (
        inner.is_resource
        and inner.verb == "create"
        and (inner.group, inner.resource) in _KINDS
        and not (inner.subresource or inner.name or inner.namespace)
    )


class SelfReviews:
    def __init__(self, decide: Decide, *, exempt_discovery: bool) -> None:
        self._decide = decide
        self._exempt_discovery = exempt_discovery

    async def answer(self, who: UserInfo, cluster: str, inner: RequestInfo, request: Request) -> Response:
        kind = _KINDS[inner.group, inner.resource]
        typed: Object = {"kind": kind, "apiVersion": f"{inner.group}/{inner.version}", "metadata": {}}
        body = await _decoded(request, inner, kind)
        if kind == "SelfSubjectReview":
            return _created({**typed, "status": {"userInfo": who.document()}})
        if kind == "SelfSubjectRulesReview":
            return _created({**typed, **self._rules(cluster, body)})
        return _created({**typed, **await self._access(who, cluster, body)})

    async def _access(self, who: UserInfo, cluster: str, body: Object) -> Object:
        spec = _typed(body, _AccessReview).spec
        shown = msgspec.to_builtins(spec)
        problems = check_attributes(shown)
        if problems:
            raise errors.invalid(AUTHORIZATION, "", "", problems)
        decision = await self._decide(who, cluster, _wanted(spec))
        status: Object = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return {"spec": shown, "status": status}

    def _rules(self, cluster: str, body: Object) -> Object:
        spec = _typed(body, _RulesReview).spec
        if not spec.namespace:
            raise errors.bad_request("no namespace on request")
        text = (
            f'what may be done on cluster "{cluster}" through the cluster gateway is decided by the verbs "{cluster}/<verb>" on '
            "the hub, which cannot be listed here: ask for one with `kubectl auth can-i <verb> <resource>`"
        )
        paths = [{"verbs": ["get"], "nonResourceURLs": list(PATHS)}] if self._exempt_discovery else []
        status = {"resourceRules": list(SELF_REVIEW_RULES), "nonResourceRules": paths, "incomplete": True, "evaluationError": text}
        return {"spec": msgspec.to_builtins(spec), "status": status}


def _wanted(spec: _AccessSpec) -> RequestInfo:
    """The request of a review. A raw selector is used as in a query; one in the form of requirements is left out, which asks for
    more."""
    attributes = spec.resourceAttributes
    if attributes is None:
        path = spec.nonResourceAttributes or _NonResourceAttributes()
        return RequestInfo(False, path.path, path.verb)
    return RequestInfo(
        True,
        "",
        attributes.verb,
        group=attributes.group,
        version=attributes.version,
        namespace=attributes.namespace,
        resource=attributes.resource,
        subresource=attributes.subresource,
        name=attributes.name,
        field_selector=attributes.fieldSelector.rawSelector if attributes.fieldSelector else "",
        label_selector=attributes.labelSelector.rawSelector if attributes.labelSelector else "",
    )


async def _decoded(request: Request, inner: RequestInfo, kind: str) -> Object:
    body = await _body(request)
    media = (request.headers.get("content-type") or JSON).partition(";")[0].strip().lower()
    version = f"{inner.group}/{inner.version}"
    found: Any
    try:
        if media == JSON:
            found = orjson.loads(body)
        elif media == "application/yaml":
            found = load(body)
        elif media == "application/vnd.kubernetes.protobuf":
            found = protobuf.decode(body, version, kind)
        else:
            raise errors.unsupported_media_type(_MEDIA)
    except (orjson.JSONDecodeError, YAMLError, DecodeError) as problem:
        raise errors.bad_request(f"the body of the request is not a {kind}: {problem}") from None
    if not isinstance(found, dict):
        raise errors.bad_request(f"the body of the request is not a {kind}: it must be an object")
    if (found.get("apiVersion") or version, found.get("kind") or kind) != (version, kind):
        raise errors.bad_request(f"the body of the request must be a {kind} of {version}")
    return found


def _typed(body: Object, form: type[T]) -> T:
    try:
        return msgspec.convert(_without_nulls(body), form)
    except msgspec.ValidationError as problem:
        raise errors.bad_request(f"the body of the request cannot be read: {problem}") from None


def _without_nulls(found: Object) -> Object:
    """As encoding/json of Go: null means that a field is absent. Fields nested deeper than in a review do not matter."""
    there = {key: value for key, value in found.items() if value is not None}
    return {key: _without_nulls(value) if isinstance(value, dict) else value for key, value in there.items()}


async def _body(request: Request) -> bytes:
    stream = request.body_stream
    if stream is not None and stream.length is not None and stream.length > MAX_BODY_SIZE:
        raise errors.too_large(f"limit is {MAX_BODY_SIZE}")
    try:
        if stream is None or stream.whole:
            found = await request.read_body()
        else:
            async with asyncio.timeout(BODY_TIMEOUT):
                found = await _gathered(stream)
    except TimeoutError:
        raise errors.ApiError(408, "Timeout", "the body of the request did not arrive in time") from None
    except BodyRefused as refused:
        raise errors.unreadable_body(refused.status, refused.message) from None
    if len(found) > MAX_BODY_SIZE:
        raise errors.too_large(f"limit is {MAX_BODY_SIZE}")
    return found


async def _gathered(stream: BodyStream) -> bytes:
    gathered = bytearray()
    async for data in stream:
        gathered += data
        if len(gathered) > MAX_BODY_SIZE:
            break
    return bytes(gathered)


def _created(obj: Object) -> Response:
    return Response(201, orjson.dumps(obj), [("Cache-Control", "no-cache, private")], JSON)
