"""The gateway's HTTP handler: authentication, authorization on the hub, and forwarding to the cluster.

Every request is authenticated and authorized here, although the hub's API server does both before it forwards one: clients can
also reach the port directly. Reads of ClusterGateways, discovery and OpenAPI are answered by the `VirtualApi`. For a request to a
cluster, the cluster and the inner path are parsed from the raw request target, exactly what will be sent is authorized, and the
request is relayed; it never becomes an API object.

Upstream's abbreviated paths contain no version, and no kube-aggregator routes them. Clients that connect to the gateway directly
can use them, by the same rules, and get a Warning with the full path.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from muster.apiserver.audit import Audit
from muster.apiserver.errors import ApiError, access_denied, bad_request, forbidden, unauthorized
from muster.apiserver.virtual import Answer, VirtualApi
from muster.gateway import refusals
from muster.gateway.audit import AuditedRequest
from muster.gateway.authorization import HubAccess, explain_refusal
from muster.gateway.metrics import GatewayMetrics
from muster.gateway.names import PROXY, RESOURCE
from muster.gateway.relay import ClusterRelay, ProxyPath, ProxyPaths, audit_id
from muster.gateway.request_decision import Granted, RequestAuthorizer
from muster.gateway.request_tracker import RequestTracker
from muster.gateway.target import Target, Targets
from muster.http import Request, Takeover
from muster.kube.impersonation import PREFIX as IMPERSONATION
from muster.kube.impersonation import BadImpersonation
from muster.kube.request_info import RequestInfo, request_info
from muster.machinery.authentication import UNAUTHENTICATED, UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.logs import get_logger
from muster.runtime.auth import Authorizer, CallerAuthentication, ImpersonationForbidden, Unauthenticated, impersonated
from muster.runtime.client import KubeError

log = get_logger("muster.gateway")

UNAUTHENTICATED_PATHS: Final = ("/healthz", "/livez", "/readyz")
"""The kubelet's probes have no credentials."""
AUTHENTICATION_FAILED: Final = "AuthenticationFailed"
"""Cause in a Status: the caller could not be authenticated because the hub did not answer."""
_FORBIDDEN: Final = 403
_ANONYMOUS: Final = UserInfo("system:anonymous", groups=(UNAUTHENTICATED,))
_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class GatewayHandler:
    """An HTTP handler, `handle`. `served` are the groups and versions of the API, the preferred one first."""

    def __init__(
        self,
        api: VirtualApi,
        served: Sequence[tuple[str, str]],
        *,
        authentication: CallerAuthentication,
        authorizer: Authorizer,
        access: HubAccess,
        request_authorizer: RequestAuthorizer,
        targets: Targets,
        relay: ClusterRelay,
        metrics: GatewayMetrics,
        audit: Audit | None = None,
    ) -> None:
        self._api = api
        self._preferred = served[0]
        self._paths = ProxyPaths([f"{group}/{version}" for group, version in served])
        self._authentication = authentication
        self._authorizer = authorizer
        self._access = access
        self._request_authorizer = request_authorizer
        self._targets = targets
        self._relay = relay
        self._metrics = metrics
        self._audit = audit

    def streams(self, request: Request) -> bool:
        """Whether the body of a request is streamed."""
        return self._paths.covers(request.raw_path)

    async def handle(self, request: Request) -> Answer:
        if request.raw_path.startswith(UNAUTHENTICATED_PATHS):
            return await self._api.serve(request, _ANONYMOUS)
        try:
            proxy_path = self._paths.split(request.raw_path)
            who = await self._authenticate(request)
            if proxy_path is not None:
                return await self._proxy(request, who, proxy_path)
            await self._authorize(request, who)
        except ApiError as error:
            return refusals.answer(error)
        return await self._api.serve(request, who)

    async def _authenticate(self, request: Request) -> UserInfo:
        """The user of the request. Raises ApiError."""
        if not self._authentication.ready:
            # Client certificates cannot be verified yet: their users would be treated as anonymous.
            text = "the gateway has not read yet how callers are authenticated; try again"
            raise refusals.refusal(503, "ServiceUnavailable", "", AUTHENTICATION_FAILED, text, 1)
        try:
            caller = await self._authentication.authenticate(request)
            if not request.headers.any_starts(IMPERSONATION):
                return caller
            return await impersonated(caller, request.headers.items(), self._authorizer)
        except BadImpersonation as problem:
            raise bad_request(str(problem)) from None
        except ImpersonationForbidden as problem:
            raise forbidden(problem.needed.group, problem.needed.resource, problem.needed.name, str(problem)) from None
        except Unauthenticated as problem:
            log.debug("caller not authenticated", remote=request.connection.remote[0], problem=str(problem))
            raise unauthorized() from None
        except KubeError as error:
            log.warning("authentication failed", error=str(error))
            text = "the hub could not be asked who the caller is; try again"
            raise refusals.refusal(503, "ServiceUnavailable", "", AUTHENTICATION_FAILED, text, 1) from None

    async def _authorize(self, request: Request, who: UserInfo) -> None:
        """Authorizes requests that are not for a cluster: objects of the API, discovery and OpenAPI. Raises ApiError."""
        info = _read(request.method, request.raw_path, request.query)
        attributes = AccessAttributes(info.verb, path=info.path)
        if info.is_resource:
            resource = (info.group, info.version, info.resource, info.subresource, info.namespace, info.name)
            attributes = AccessAttributes(info.verb, *resource)
        decision = await self._access.decide(who, attributes)
        if not decision.allowed:
            raise access_denied(who, attributes, decision.reason)

    async def _proxy(self, request: Request, who: UserInfo, proxy_path: ProxyPath) -> Answer:
        inner = _read(request.method, proxy_path.path, request.query)
        identifier = audit_id(request.headers)
        audited = AuditedRequest(self._audit, request, identifier, who)
        audited.set_cluster(proxy_path.cluster, inner)
        tracker = RequestTracker(audited, self._metrics, proxy_path.cluster, inner)
        try:
            answer = await self._forward(request, who, proxy_path, inner, audited, identifier)
        except ApiError as error:
            answer = refusals.answer(error)
        except BaseException as problem:
            tracker.failed(problem)
            raise
        if proxy_path.alias and not isinstance(answer, Takeover):
            answer.headers = [*answer.headers, refusals.warning(self._long_path(proxy_path))]
        return tracker.track(answer)

    async def _forward(
        self, request: Request, who: UserInfo, proxy_path: ProxyPath, inner: RequestInfo, audited: AuditedRequest, identifier: str
    ) -> Answer:
        group, version = self._preferred
        refused = await self._access.may_use(who, proxy_path.cluster, _VERBS.get(request.method, ""), group=group, version=version)
        if refused is not None:
            audited.record_decision(refused)
            return refused.answer
        target = self._targets.find(proxy_path.cluster)
        if target is None:
            raise refusals.unknown_cluster(proxy_path.cluster)
        path = below_base(target, proxy_path.path)
        if path != proxy_path.path:
            inner = _read(request.method, path, request.query)
        decision = await self._request_authorizer.authorize(who, proxy_path.cluster, inner, request)
        audited.record_decision(decision)
        if not isinstance(decision, Granted):
            return decision.answer
        # The cluster may have been removed from the hub during the review.
        target = self._targets.find(proxy_path.cluster)
        if target is None:
            raise refusals.unknown_cluster(proxy_path.cluster)
        if below_base(target, proxy_path.path) != path:
            raise refusals.moved(proxy_path.cluster)
        answer = await self._relay.send(
            request,
            target,
            path,
            request.query,
            decision,
            inner=inner,
            user=who.name,
            audit_id=identifier,
            still_allowed=partial(self._still_allowed, request, who, proxy_path.cluster, inner, decision),
        )
        return explain_refusal(decision.impersonated, answer)

    async def _still_allowed(self, request: Request, who: UserInfo, cluster: str, inner: RequestInfo, granted: Granted) -> bool:
        """Whether the request would be granted again with the same identity. Only a clear refusal counts, not a failed review."""
        group, version = self._preferred
        refused = await self._access.may_use(who, cluster, _VERBS.get(request.method, ""), group=group, version=version)
        decision = refused or await self._request_authorizer.authorize(who, cluster, inner, request)
        if isinstance(decision, Granted):
            return decision.impersonated == granted.impersonated
        return decision.answer.status != _FORBIDDEN

    def _long_path(self, proxy_path: ProxyPath) -> str:
        group, version = self._preferred
        path = f"/apis/{group}/{version}/{RESOURCE}/{proxy_path.cluster}/{PROXY}"
        return f"this path is an abbreviation of {path}, which the hub's API server routes too"


def below_base(target: Target, path: str) -> str:
    """The path below the base path of the cluster's API. A server with a base path returns URLs from the root (in OpenAPI
    documents), and clients request these below the gateway's path."""
    base = target.endpoints[0].base_path if target.endpoints else ""
    return path[len(base) :] if base and path.startswith(base + "/") else path


def _read(method: str, raw_path: str, query: str) -> RequestInfo:
    """Raises ApiError."""
    try:
        return request_info(method, raw_path, query)
    except ValueError as problem:
        raise refusals.bad_path(f"the request cannot be parsed: {problem}; nothing was sent") from None
