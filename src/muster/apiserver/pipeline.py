"""The request pipeline: authenticate → impersonate → authorize → find the resource → read the body → run the verb → answer.
Corresponds to the handler chain of `k8s.io/apiserver/pkg/server` (`DefaultBuildHandlerChain`).

Requests are dispatched when their headers have arrived. An unauthorized request is answered without reading its body, so the server
buffers nothing for unauthenticated clients, and `Expect: 100-continue` is granted only to authorized requests.

Each step continues or raises `ApiError`; errors are converted to Status answers in one place. Sockets and the in-process client use
the same function, so that a simulated cluster behaves exactly like a remote one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import orjson
from msgspec.structs import replace

from muster.apiserver import errors
from muster.apiserver.aggregation import Aggregator
from muster.apiserver.audit import CLIENT_CLOSED_REQUEST, INTERNAL_ERROR, Audit
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.fairness import FairQueue
from muster.apiserver.handlers import deletion, patches, reads, watches, writes
from muster.apiserver.long_running_requests import OpenRequest, OpenRequests
from muster.apiserver.nonresource.metrics import RequestMetrics
from muster.apiserver.presentation.negotiation import JSON, check_collection, check_object, error_media
from muster.apiserver.presentation.responses import NO_CACHE, DeferredResponse, warning_fields
from muster.apiserver.registry.resource import ServedResource, Subresource
from muster.apiserver.request import parse_query, parse_target
from muster.http import BodyRefused, Request, Response, StreamResponse, Takeover
from muster.kube.yaml import dump
from muster.machinery.authentication import ANONYMOUS, UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.logs import get_logger
from muster.store.api import Unavailable

log = get_logger(__name__)

Answer = Response | StreamResponse | Takeover
SubresourceHandler = Callable[[Context, ServedResource, str], Awaitable[Answer]]
"""Serves a subresource that is not stored with its parent: token, scale, eviction, …"""
_ITEM_VERBS = frozenset({"get", "update", "patch", "delete"})
CreateHandler = Callable[[Context, ServedResource], Awaitable[Answer]]
"""Serves the creation of a kind that is never stored: reviews."""


class NonResource(Protocol):
    """Serves paths outside the resource tree: discovery, OpenAPI, health, version, metrics."""

    async def __call__(self, ctx: Context) -> Answer | None: ...


class Pipeline:
    """Serves the clusters of one process. `server` passes the tables of special handlers."""

    def __init__(
        self,
        non_resource: NonResource,
        subresources: Mapping[tuple[str, str], SubresourceHandler],
        creates: Mapping[str, CreateHandler],
        fairness: FairQueue,
        metrics: RequestMetrics,
        audit: Audit | None = None,
    ) -> None:
        self._non_resource = non_resource
        self._subresources = subresources
        self._creates = creates
        self._audit = audit
        self._fairness = fairness
        self._metrics = metrics

    async def serve(
        self, cluster: Cluster, request: Request, path: str, user: UserInfo | None = None, creating: str = ""
    ) -> Answer:
        """Serve one request. `path` is the path within the cluster. The in-process client sets `user`, which is not authenticated,
        and `creating`: the name of the object to create, for rules that are limited to names, which paths of creations do not
        have."""
        query = parse_query(request.query)
        requested, tail = parse_target(request.method, path, query)
        caller: UserInfo | None = user
        acting: UserInfo | None = user
        warnings: list[str] = []
        open_requests = cluster.part(OpenRequests)
        admitted_at = open_requests.generation
        fairness = self._fairness
        fairness.in_flight += 1
        try:
            if caller is None:
                acting = caller = await cluster.rules.authenticate(request, warnings)
                if caller is not ANONYMOUS:
                    request.connection.owner = (cluster.name, caller.name)
                if not fairness.try_start(caller.name):
                    await fairness.wait(caller.name)
            acting = cluster.rules.impersonate(caller, request)
            ctx = Context(cluster, request, acting, requested, query, tail)
            ctx.warnings += warnings
            warnings = ctx.warnings
            answer = await self._dispatch(ctx, creating)
            if isinstance(answer, DeferredResponse):
                answer = await ctx.run_in_worker(answer.make)
        except errors.ApiError as error:
            answer = status_response(error, warnings, error_media(request.headers.get("accept") or ""))
        except Unavailable as problem:
            unknown = errors.internal(f"the newest state could not be read: {problem.problem}")
            answer = status_response(unknown, warnings, error_media(request.headers.get("accept") or ""))
        except BaseException as problem:
            # Also requests whose client disconnected or that failed unexpectedly are audited: they may have been carried out.
            if self._audit is not None:
                code = CLIENT_CLOSED_REQUEST if isinstance(problem, asyncio.CancelledError) else INTERNAL_ERROR
                self._audit.record(cluster, request, requested, acting, caller, code)
            raise
        finally:
            fairness.in_flight -= 1
        code = 101 if isinstance(answer, Takeover) else answer.status
        resource = cluster.resources.get(requested.group, requested.version, requested.resource) if requested.is_resource else None
        self._metrics.count(requested, resource, code, time.monotonic() - request.received)
        if not isinstance(answer, Response):
            assert caller is not None
            opened = OpenRequest(request, caller, requested, in_process=user is not None)
            open_requests.track(answer, opened, admitted_at)
        if self._audit is not None:
            self._audit.record(cluster, request, requested, acting, caller, answer)
        return answer

    async def _dispatch(self, ctx: Context, creating: str) -> Answer:
        attributes = ctx.attributes
        attributes_with_name = (
            replace(attributes, name=creating) if creating and attributes.verb == "create" and not attributes.name else attributes
        )
        if ctx.cluster.removed:  # while the request was queued, or for an in-process client of a removed cluster
            raise errors.no_such_cluster(ctx.cluster.name)
        decision = ctx.cluster.rules.authorize(ctx.user, attributes_with_name)
        if not decision.allowed and ctx.user is not ANONYMOUS and await ctx.cluster.catch_up():
            decision = ctx.cluster.rules.authorize(ctx.user, attributes_with_name)
        if not decision.allowed:
            raise errors.access_denied(ctx.user, attributes, decision.reason)
        if ctx.cluster.part(Aggregator).remotes:
            proxied = await ctx.cluster.part(Aggregator).serve(ctx)
            if proxied is not None:
                return proxied
        if not attributes.is_resource:
            return _without_cache(await self._non_resource(ctx) or _not_found(ctx))
        if ctx.tail.startswith("/"):  # the verb is in the path
            return _not_found(ctx)
        resource = ctx.cluster.resources.get(attributes.group, attributes.version, attributes.resource)
        if resource is None and await ctx.cluster.catch_up():
            resource = ctx.cluster.resources.get(attributes.group, attributes.version, attributes.resource)
        if resource is None or (ctx.tail and not _has_path(resource, attributes)):
            return _not_found(ctx)
        if resource.deprecation:
            ctx.warn(resource.deprecation)
        if not _in_scope(attributes, resource):
            if resource.namespaced and not attributes.name:
                raise errors.method_not_allowed()
            return _not_found(ctx)
        if attributes.subresource:
            return await self._subresource(ctx, resource)
        return await self._verb(ctx, resource)

    async def _verb(self, ctx: Context, resource: ServedResource) -> Answer:
        verb, method = ctx.attributes.verb, ctx.request.method
        name = _object_name(ctx)
        if name and _ITEM_VERBS.isdisjoint(resource.verbs):
            raise errors.no_such_resource()
        if (
            method == "HEAD"
            or verb not in resource.verbs
            or (name and verb == "create")
            or (not name and verb in ("update", "patch"))
        ):
            raise errors.method_not_allowed()
        if not resource.is_custom:
            (check_collection if verb in ("list", "watch") else check_object)(ctx.accept)
        if verb == "get":
            return await reads.get(ctx, resource, name)
        if verb == "list":
            return await reads.list_objects(ctx, resource)
        if verb == "watch":
            return await watches.watch(ctx, resource)
        if ctx.request.body_stream is not None:
            await _receive(ctx.request)
        if verb == "create":
            special = self._creates.get(resource.storage)
            return await (special(ctx, resource) if special is not None else writes.create(ctx, resource))
        if verb == "update":
            return await writes.update(ctx, resource, name)
        if verb == "patch":
            return await patches.patch(ctx, resource, name)
        if verb == "delete":
            return await deletion.delete(ctx, resource, name)
        return await deletion.delete_collection(ctx, resource)

    async def _subresource(self, ctx: Context, resource: ServedResource) -> Answer:
        attributes = ctx.attributes
        sub: Subresource | None = resource.subresources.get(attributes.subresource)
        if sub is None:
            raise errors.not_found(resource, attributes.name) if resource.is_custom else errors.no_such_resource()
        if sub.takes_path:
            return await self._subresources[resource.storage, sub.name](ctx, resource, attributes.name)
        if attributes.verb not in sub.verbs or ctx.request.method == "HEAD":
            raise errors.method_not_allowed()
        if not resource.is_custom and sub.name != "log":  # logs are text
            check_object(ctx.accept)
        if ctx.request.body_stream is not None and attributes.verb != "get":
            await _receive(ctx.request)
        special = self._subresources.get((resource.storage, sub.name)) or self._subresources.get(("*", sub.name))
        if special is not None:
            return await special(ctx, resource, attributes.name)
        if attributes.verb == "get":
            return await reads.get(ctx, resource, attributes.name)
        if attributes.verb == "update":
            return await writes.update(ctx, resource, attributes.name)
        return await patches.patch(ctx, resource, attributes.name)


def _has_path(resource: ServedResource, attributes: AccessAttributes) -> bool:
    sub = resource.subresources.get(attributes.subresource)
    return sub is not None and sub.takes_path


async def _receive(request: Request) -> None:
    try:
        await request.read_body()
    except BodyRefused as refused:
        raise errors.unreadable_body(refused.status, refused.message) from None


def _object_name(ctx: Context) -> str:
    """The name in the path. A name from a field selector is only used for authorization."""
    return "" if ctx.attributes.verb in ("list", "watch", "deletecollection") else ctx.attributes.name


def _in_scope(attributes: AccessAttributes, resource: ServedResource) -> bool:
    """Whether the path has a namespace if and only if the resource is namespaced. Lists and watches of all namespaces are allowed,
    and the path of a Namespace has its name."""
    if resource.storage == "/namespaces":
        return attributes.namespace in ("", attributes.name)
    if bool(attributes.namespace) == resource.namespaced:
        return True
    return resource.namespaced and attributes.verb in ("list", "watch")


def _not_found(ctx: Context) -> Response:
    """The answer for a path that is not served: a Status in built-in groups, else a plain 404."""
    root, _, rest = ctx.attributes.path.removeprefix("/").partition("/")
    if root == "api" or (root == "apis" and rest and ctx.cluster.resources.is_builtin(rest.partition("/")[0])):
        raise errors.no_such_resource()
    headers = [NO_CACHE, ("X-Content-Type-Options", "nosniff")]
    return Response(404, b"404 page not found\n", headers, "text/plain; charset=utf-8")


def _without_cache(answer: Answer) -> Answer:
    """Add `Cache-Control: no-cache, private` to an answer without a cache policy."""
    if isinstance(answer, Response) and not any(name.lower() == "cache-control" for name, _ in answer.headers):
        answer.headers = [NO_CACHE, *answer.headers]
    return answer


def status_response(error: errors.ApiError, warnings: Sequence[str] = (), media: str = JSON) -> Response:
    headers = [NO_CACHE, *warning_fields(warnings)]
    if error.retry_after is not None:
        headers.append(("Retry-After", str(error.retry_after)))
    body = orjson.dumps(error.status()) if media == JSON else dump(error.status()).encode()
    return Response(error.code, body, headers, media)
