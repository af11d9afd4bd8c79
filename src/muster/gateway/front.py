"""The way of a request through the gateway: who asks, whether the hub lets them, which cluster, what of it, as whom, the answer.

Every request is authenticated here and judged by the hub's own rules, though the hub's API server has done both before it forwarded
one: the port can be reached by others too. Reads of ClusterGateways, discovery and OpenAPI are answered by the `VirtualApi`. What
is for a cluster is read from the raw request target, judged as exactly what will be sent, and relayed; it never becomes an object
of the API, so its way is short.

The seed's abbreviated paths name no version, and no aggregating API server routes them. Whoever asks the gateway itself is served
there too, by the same rules, and told of the long ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from muster.apiserver.audit import Audit
from muster.apiserver.errors import ApiError, bad_request, forbidden, refusal, unauthorized
from muster.apiserver.virtual import Answer, VirtualApi
from muster.gateway import refusals
from muster.gateway.audit import AuditedRequest
from muster.gateway.authorization import HubAccess, explain_refusal
from muster.gateway.course import Course
from muster.gateway.metrics import GatewayMetrics
from muster.gateway.names import PROXY, RESOURCE
from muster.gateway.relay import ClusterRelay, ProxyPath, ProxyPaths, audit_id
from muster.gateway.target import Target, Targets
from muster.gateway.verdict import Granted, Judge
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

OPEN_PAGES: Final = ("/healthz", "/livez", "/readyz")
"""Kubelets ask for them, and prove nothing."""
NOT_ASKED: Final = "AuthenticationFailed"
"""The cause in a Status that says that the hub could not be asked who somebody is."""
_FORBIDDEN: Final = 403
_ANYBODY: Final = UserInfo("system:anonymous", groups=(UNAUTHENTICATED,))
_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class GatewayFront:
    """An HTTP handler, `handle`. `served` are the groups and versions of the API, the usual one first."""

    def __init__(
        self,
        api: VirtualApi,
        served: Sequence[tuple[str, str]],
        *,
        authentication: CallerAuthentication,
        authorizer: Authorizer,
        access: HubAccess,
        judge: Judge,
        targets: Targets,
        relay: ClusterRelay,
        metrics: GatewayMetrics,
        audit: Audit | None = None,
    ) -> None:
        self._api = api
        self._usual = served[0]
        self._paths = ProxyPaths([f"{group}/{version}" for group, version in served])
        self._authentication = authentication
        self._authorizer = authorizer
        self._access = access
        self._judge = judge
        self._targets = targets
        self._relay = relay
        self._metrics = metrics
        self._audit = audit

    def streams(self, request: Request) -> bool:
        """Whether a request's body is taken as it comes."""
        return self._paths.covers(request.raw_path)

    async def handle(self, request: Request) -> Answer:
        if request.raw_path.startswith(OPEN_PAGES):
            return await self._api.serve(request, _ANYBODY)
        try:
            way = self._paths.split(request.raw_path)
            who = await self._identify(request)
            if way is not None:
                return await self._proxy(request, who, way)
            await self._admit(request, who)
        except ApiError as error:
            return refusals.answer(error)
        return await self._api.serve(request, who)

    async def _identify(self, request: Request) -> UserInfo:
        """Whom the request counts for. Raises ApiError."""
        if not self._authentication.ready:
            # A certificate would not count yet, and whoever has one would be told that he is nobody.
            text = "it is not known yet by what callers are known; try again"
            raise refusals.refusal(503, "ServiceUnavailable", "", NOT_ASKED, text, 1)
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
            log.debug("caller is unknown", remote=request.connection.remote[0], problem=str(problem))
            raise unauthorized() from None
        except KubeError as error:
            log.warning("the hub cannot be asked who calls", error=str(error))
            text = "the hub cannot be asked who calls; try again"
            raise refusals.refusal(503, "ServiceUnavailable", "", NOT_ASKED, text, 1) from None

    async def _admit(self, request: Request, who: UserInfo) -> None:
        """To what is not for a cluster: objects of the API, and what describes it. Raises ApiError."""
        asked = _read(request.method, request.raw_path, request.query)
        attributes = AccessAttributes(asked.verb, path=asked.path)
        if asked.is_resource:
            place = (asked.group, asked.version, asked.resource, asked.subresource, asked.namespace, asked.name)
            attributes = AccessAttributes(asked.verb, *place)
        decision = await self._access.decide(who, attributes)
        if not decision.allowed:
            raise refusal(who, attributes, decision.reason)

    async def _proxy(self, request: Request, who: UserInfo, way: ProxyPath) -> Answer:
        inner = _read(request.method, way.path, request.query)
        identifier = audit_id(request.headers)
        audited = AuditedRequest(self._audit, request, identifier, who)
        audited.addressed(way.cluster, inner)
        course = Course(audited, self._metrics, way.cluster, inner)
        try:
            answer = await self._judged(request, who, way, inner, audited, identifier)
        except ApiError as error:
            answer = refusals.answer(error)
        except BaseException as problem:
            course.broken(problem)
            raise
        if way.alias and not isinstance(answer, Takeover):
            answer.headers = [*answer.headers, refusals.warning(self._long_path(way))]
        return course.answered(answer)

    async def _judged(
        self, request: Request, who: UserInfo, way: ProxyPath, inner: RequestInfo, audited: AuditedRequest, identifier: str
    ) -> Answer:
        group, version = self._usual
        refused = await self._access.may_use(who, way.cluster, _VERBS.get(request.method, ""), group=group, version=version)
        if refused is not None:
            audited.judged(refused)
            return refused.answer
        target = self._targets.find(way.cluster)
        if target is None:
            raise refusals.unknown_cluster(way.cluster)
        path = below_base(target, way.path)
        if path != way.path:
            inner = _read(request.method, path, request.query)
        verdict = await self._judge.judge(who, way.cluster, inner, request)
        audited.judged(verdict)
        if not isinstance(verdict, Granted):
            return verdict.answer
        # The hub may have taken the cluster away while it was asked.
        target = self._targets.find(way.cluster)
        if target is None:
            raise refusals.unknown_cluster(way.cluster)
        if below_base(target, way.path) != path:
            raise refusals.moved(way.cluster)
        answer = await self._relay.send(
            request,
            target,
            path,
            request.query,
            verdict,
            inner=inner,
            user=who.name,
            audit_id=identifier,
            still_granted=partial(self._still_granted, request, who, way.cluster, inner, verdict),
        )
        return explain_refusal(verdict.impersonated, answer)

    async def _still_granted(self, request: Request, who: UserInfo, cluster: str, inner: RequestInfo, granted: Granted) -> bool:
        """Whether the answers of before would be given again. No answer, or none that decides, takes nothing away."""
        group, version = self._usual
        refused = await self._access.may_use(who, cluster, _VERBS.get(request.method, ""), group=group, version=version)
        verdict = refused or await self._judge.judge(who, cluster, inner, request)
        if isinstance(verdict, Granted):
            return verdict.impersonated == granted.impersonated
        return verdict.answer.status != _FORBIDDEN

    def _long_path(self, way: ProxyPath) -> str:
        group, version = self._usual
        path = f"/apis/{group}/{version}/{RESOURCE}/{way.cluster}/{PROXY}"
        return f"this path is short for {path}, which the hub's API server routes too"


def below_base(target: Target, path: str) -> str:
    """What a path is of a cluster that is served below one: such a server names URLs from the root (those of OpenAPI documents),
    and clients ask for them below the gateway's path."""
    base = target.endpoints[0].base_path if target.endpoints else ""
    return path[len(base) :] if base and path.startswith(base + "/") else path


def _read(method: str, raw_path: str, query: str) -> RequestInfo:
    """Raises ApiError."""
    try:
        return request_info(method, raw_path, query)
    except ValueError as problem:
        raise refusals.bad_path(f"the request cannot be read: {problem}; nothing was sent") from None
