"""Sending a request to a cluster and giving its answer back.

`ClusterRelay` is given a request that has been authorised, the target it goes to and the very path and query that were judged. What
it answers is the cluster's answer, or a Status that says why there is none; the token and the key of a cluster are in neither.

Clusters do not know of each other: each has its own connections, its own count of what is under way, its own breaker and its own
memory of which of its endpoints answers. A request is sent once. Another endpoint is tried only while nothing was sent, and a
request for which the cluster did not accept the gateway's credential (401) is sent again once, if the hub has another one by then
and the request is still whole. A client never sees that 401, which it would take for its own.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.konnectivity.cluster_proxy import ClusterProxy
from muster.gateway.names import COMPONENT
from muster.gateway.relay import headers
from muster.gateway.relay.cluster_state import ClusterState
from muster.gateway.relay.duration import HEAD_TIMEOUT, head_timeout, is_long_running
from muster.gateway.relay.limits import Kind, Limits
from muster.gateway.relay.passage import Passage, StillGranted, Traffic, Uncounted
from muster.gateway.relay.paths import check_path, check_query
from muster.gateway.relay.pools import ClusterPools
from muster.gateway.relay.problems import ClusterProblem, problem_of
from muster.gateway.target import (
    CLUSTER_BUSY,
    CLUSTER_TIMEOUT,
    CREDENTIAL_EXPIRED,
    CREDENTIAL_MISSING,
    CREDENTIAL_REFUSED,
    ENDPOINT_MISSING,
    BearerToken,
    Credential,
    Observer,
    Problem,
    Target,
    Targets,
)
from muster.gateway.tunnel.tunnels import Tunnels
from muster.gateway.verdict import Granted
from muster.http import Answer, Request, RequestBodyTooLarge, Takeover, UpstreamError, relay
from muster.http.upstream import encode_request, host_port
from muster.kube.front_proxy import USUAL, FrontProxyHeaders
from muster.kube.request_info import RequestInfo

CONNECT_TIMEOUT: Final = 10.0
NEXT_ENDPOINT_TIMEOUT: Final = 3.0
"""For connecting where there is another endpoint to try."""
SMALL_BODY: Final = 64 * 1024
"""A body up to this size is read before it is sent: then it can be sent again with another credential."""
REFRESH_PAUSE: Final = 2.0
"""Seconds for which the hub is not asked again about a credential that it has just confirmed."""
ASK_TIMEOUT: Final = 10.0
UNUSED: Final = 900.0
"""Seconds after which what is kept for a cluster that nobody asks is dropped."""
_LONGEST_PROBE: Final = 1024 * 1024
_UNAUTHORIZED: Final = 401

logger = logging.getLogger("muster.gateway.relay")


class ClusterRelay:
    """The way to all clusters. `identity` says by which fields the hub's front proxies name users now: those are never passed on,
    and neither are the usual ones."""

    def __init__(
        self,
        targets: Targets,
        observer: Observer,
        *,
        limits: Limits = Limits(),  # noqa: B008  # a frozen value
        traffic: Traffic | None = None,
        tunnels: Tunnels | None = None,
        cluster_proxy: ClusterProxy | None = None,
        identity: Callable[[], FrontProxyHeaders] = lambda: USUAL,
        connect_timeout: float = CONNECT_TIMEOUT,
        answer_timeout: float = HEAD_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets = targets
        self._observer = observer
        self._limits = limits
        self._traffic = traffic or Uncounted()
        self._fields = headers.RequestFields(identity)
        self._connect_timeout = connect_timeout
        self._answer_timeout = answer_timeout
        self._clock = clock
        self._pools = ClusterPools(tunnels, cluster_proxy)
        self._clusters: dict[str, ClusterState] = {}
        self._under_way: dict[str, set[Passage]] = {}

    async def send(
        self,
        request: Request,
        target: Target,
        path: str,
        query: str,
        granted: Granted,
        *,
        inner: RequestInfo,
        user: str,
        audit_id: str,
        still_granted: StillGranted | None = None,
    ) -> Answer:
        """Send `request` as `path` and `query` (both raw, as they were judged) to `target`, and give the answer for the client.

        `inner` is what `path` and `query` ask for, `user` whose limits are used. Whatever goes wrong is an answer too. With
        `still_granted`, an answer that lasts is one of `open_streams`.
        """
        try:
            return await self._send(request, target, path, query, granted, inner, user, audit_id, still_granted)
        except ApiError as error:
            return refusals.answer(error, (("Audit-Id", audit_id),))

    async def ask(self, target: Target, path: str) -> int:
        """The status code of the cluster's answer to a GET of `path`, by the same connections; raises ClusterProblem."""
        _check_usable(target)
        cluster = self._cluster(target)
        pool = cluster.way(self._pools, target)
        fields = [("User-Agent", COMPONENT), ("Accept", "*/*")]
        if isinstance(target.credential, BearerToken):
            fields.append(headers.authorization(target.credential))
        context = await pool.context()
        failure: UpstreamError | None = None
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                for endpoint in cluster.in_order(target.endpoints):
                    host = ("Host", host_port(endpoint.host, endpoint.port))
                    asked = encode_request("GET", endpoint.base_path + path, (host, *fields))
                    try:
                        head, _ = await pool.connections.ask(
                            pool.key(endpoint, context), asked, timeout=self._connect_timeout, repeat=True, longest=_LONGEST_PROBE
                        )
                    except UpstreamError as error:
                        failure = error
                        if error.sent:
                            break
                        cluster.skip(endpoint)
                    else:
                        cluster.breaker.succeeded()
                        return head.status
        except TimeoutError:
            raise ClusterProblem(Problem(CLUSTER_TIMEOUT, f"no answer to a probe within {ASK_TIMEOUT:g} s")) from None
        assert failure is not None, "a target that can be used has endpoints"
        problem = problem_of(failure, target)
        if not failure.sent:
            cluster.breaker.failed(problem)
        raise ClusterProblem(problem) from failure

    def cut(self, cluster: str, refusal: ApiError) -> None:
        """End all that is under way to a cluster, now."""
        for passage in list(self._under_way.pop(cluster, ())):
            passage.cut(refusal)

    def open_streams(self) -> list[Passage]:
        """What lasts and is under way to whichever cluster, with `still_granted`."""
        return [each for passages in self._under_way.values() for each in passages if each.still_granted is not None]

    def forget(self, cluster: str) -> None:
        """Nothing is kept of a cluster, and what is under way may end."""
        if not self._under_way.get(cluster):
            self._under_way.pop(cluster, None)
        known = self._clusters.pop(cluster, None)
        if known is not None:
            known.close()

    def close(self) -> None:
        """Close what is idle; connections in use are closed when their exchange ends."""
        for cluster in list(self._clusters):
            self.forget(cluster)

    # The way of a request

    async def _send(
        self,
        request: Request,
        target: Target,
        path: str,
        query: str,
        granted: Granted,
        inner: RequestInfo,
        user: str,
        audit_id: str,
        still_granted: StillGranted | None,
    ) -> Answer:
        name = target.cluster
        check_path(path, name)
        check_query(query, name)
        if request.method in headers.REFUSED_METHODS:
            raise refusals.method_not_allowed(name, request.method)
        if request.upgrade and (problem := headers.upgrade_problem(request.headers)):
            raise refusals.bad_request(name, problem)
        if headers.is_circular(request.headers):
            raise refusals.loop(name)
        cluster = self._cluster(target)
        kind = Kind.UPGRADE if request.upgrade else Kind.STREAM if is_long_running(inner) else Kind.REQUEST
        if refused := cluster.load.enter(kind, user):
            raise refusals.unavailable(name, Problem(CLUSTER_BUSY, refused))
        protocol = (request.headers.get("upgrade") or "").strip().lower() if request.upgrade else ""
        backend = inner.subresource == "proxy" or inner.verb == "proxy"
        passage = Passage(
            target,
            kind,
            user,
            cluster.load,
            self._traffic,
            self._observer,
            protocol=protocol,
            backend=backend,
            under_way=self._under_way.setdefault(name, set()),
            still_granted=None if kind is Kind.REQUEST else still_granted,
        )
        timeout = head_timeout(query, self._answer_timeout) if kind is Kind.REQUEST else None
        sending = _Sending(request, f"{path}?{query}" if query else path, granted, audit_id, timeout, passage)
        try:
            _check_usable(target)
            answer = await passage.answered(lambda: self._answered(cluster, sending))
        except ClusterProblem as failure:
            passage.end()
            passage.failed(failure.problem)
            raise refusals.unavailable(name, failure.problem) from None
        except headers.UnsayableUser as error:
            passage.end()
            raise refusals.not_impersonated(name, str(error)) from None
        except RequestBodyTooLarge:
            passage.end()
            raise refusals.body_too_large(name, self._limits.body) from None
        except BaseException:
            passage.end()
            raise
        return passage.attend(answer)

    async def _answered(self, cluster: ClusterState, sending: _Sending) -> Answer:
        request, target = sending.request, sending.passage.target
        body = request.body_stream
        if body is not None and body.length is not None and body.length <= SMALL_BODY:
            await request.read_body()
        answer = await self._exchange(cluster, sending)
        if not _refuses(answer):
            self._observer.answered(target)
            return answer
        _discard(answer)
        renewed = await self._renewed(cluster, target)
        if renewed is not None and request.body_stream is None:
            sending.passage.target = renewed
            answer = await self._exchange(cluster, sending)
            if not _refuses(answer):
                self._observer.answered(renewed)
                return answer
            _discard(answer)
        raise ClusterProblem(Problem(CREDENTIAL_REFUSED, _refused_text(target)))

    async def _exchange(self, cluster: ClusterState, sending: _Sending) -> Answer:
        """By the first endpoint that can be connected to. Raises ClusterProblem, RequestBodyTooLarge and ApiError."""
        if cluster.breaker.problem is not None and (seconds := cluster.breaker.remaining()) > 0:
            raise refusals.unavailable(cluster.name, cluster.breaker.problem, math.ceil(seconds))
        request, passage = sending.request, sending.passage
        target = passage.target
        pool = cluster.way(self._pools, target)
        fields = self._fields.rewritten(
            request.headers,
            credential=target.credential,
            impersonated=sending.granted.impersonated,
            audit_id=sending.audit_id,
            upgrade=request.upgrade,
        )
        context = await pool.context()
        endpoints = cluster.in_order(target.endpoints)
        last = endpoints[-1]
        for endpoint in endpoints:
            try:
                answer = await relay(
                    request,
                    pool=pool.connections,
                    host=endpoint.host,
                    port=endpoint.port,
                    path=endpoint.base_path + sending.path,
                    headers=fields,
                    tls=context,
                    server_hostname=target.trust.server_name or None,
                    connect_timeout=self._connect_timeout if endpoint is last else NEXT_ENDPOINT_TIMEOUT,
                    head_timeout=sending.head_timeout,
                    max_body=self._limits.body,
                    review=passage.review,
                    meter=passage,
                )
            except UpstreamError as error:
                if not error.sent:
                    cluster.skip(endpoint)
                    if endpoint is not last:
                        continue
                problem = problem_of(error, target)
                if not error.sent:
                    cluster.breaker.failed(problem)
                raise ClusterProblem(problem) from error
            cluster.breaker.succeeded()
            return answer
        raise AssertionError("the last endpoint answers or fails")

    # A credential that the cluster refused

    async def _renewed(self, cluster: ClusterState, target: Target) -> Target | None:
        """A target with another credential than the one refused, if there is one: by what is known, else by asking the hub."""
        known = self._targets.find(target.cluster)
        if _is_renewed(known, target):
            return known
        if cluster.confirmed is target.credential and self._clock() < cluster.confirmed_until:
            return None
        if cluster.refresh is None:
            cluster.refresh = asyncio.create_task(self._refresh(cluster))
        found = await asyncio.shield(cluster.refresh)
        if _is_renewed(found, target):
            return found
        cluster.confirmed, cluster.confirmed_until = target.credential, self._clock() + REFRESH_PAUSE
        return None

    async def _refresh(self, cluster: ClusterState) -> Target | None:
        try:
            return await self._targets.refreshed(cluster.name)
        except Exception as error:
            # Whatever keeps the hub from answering: the request fails with the refusal that brought us here.
            logger.warning("credential not refreshed", extra={"cluster": cluster.name, "error": type(error).__name__})
            return None
        finally:
            cluster.refresh = None

    def _cluster(self, target: Target) -> ClusterState:
        cluster = self._clusters.get(target.cluster)
        if cluster is None:
            self._drop_unused()
            cluster = self._clusters[target.cluster] = ClusterState(target.cluster, self._limits, self._clock)
        cluster.asked = self._clock()
        return cluster

    def _drop_unused(self) -> None:
        latest = self._clock() - UNUSED
        for name in [name for name, cluster in self._clusters.items() if cluster.asked < latest and cluster.load.empty]:
            self.forget(name)


class _Sending:
    """What stays the same of a request when it is sent again."""

    __slots__ = ("audit_id", "granted", "head_timeout", "passage", "path", "request")

    def __init__(
        self, request: Request, path: str, granted: Granted, audit_id: str, head_timeout: float | None, passage: Passage
    ) -> None:
        self.request = request
        self.path = path
        self.granted = granted
        self.audit_id = audit_id
        self.head_timeout = head_timeout
        self.passage = passage


def _check_usable(target: Target) -> None:
    """Raises ClusterProblem for a target to which nothing can be sent."""
    if target.problem is not None:
        raise ClusterProblem(target.problem)
    credential = target.credential
    if credential is None:
        raise ClusterProblem(Problem(CREDENTIAL_MISSING, "the hub has no credential for this cluster"))
    if not target.endpoints:
        raise ClusterProblem(Problem(ENDPOINT_MISSING, "the hub knows no address of this cluster's API server"))
    if credential.expires is not None and credential.expires <= datetime.now(UTC):
        text = f"the gateway's credential for this cluster expired at {credential.expires:%Y-%m-%dT%H:%M:%SZ} and was not renewed"
        raise ClusterProblem(Problem(CREDENTIAL_EXPIRED, text))


def _is_renewed(found: Target | None, refused: Target) -> bool:
    if found is None or found.problem is not None or found.credential is None or not found.endpoints:
        return False
    return _secret(found.credential) != _secret(refused.credential)


def _secret(credential: Credential | None) -> object:
    return credential.token if isinstance(credential, BearerToken) else credential


def _refused_text(target: Target) -> str:
    account = f" of {target.account}" if target.account else ""
    return f"the cluster, or what it passed the request on to, does not accept the gateway's credential{account} (401): renew it"


def _refuses(answer: Answer) -> bool:
    return not isinstance(answer, Takeover) and answer.status == _UNAUTHORIZED


def _discard(answer: Answer) -> None:
    discard = getattr(answer, "discard", None)
    if discard is not None:
        discard()
