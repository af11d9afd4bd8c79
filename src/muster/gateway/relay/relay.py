"""Sends requests to clusters and returns their answers.

`ClusterRelay` gets an authorized request, its target, and exactly the path and query that were authorized. It returns the
cluster's answer, or a Status with the reason why there is none; neither contains the cluster's token or key.

Clusters are isolated from each other: each has its own connections, limits, circuit breaker and order of endpoints. A request is
sent once. Another endpoint is tried only while nothing was sent. If the cluster does not accept the gateway's credential (401),
the request is sent again once, provided that the hub has another credential by then and the body is still available. A client
never sees this 401, which it would take for its own.
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
from muster.gateway.relay.errors import ClusterError, problem_of
from muster.gateway.relay.in_flight import InFlightRequest, NoTraffic, StillAllowed, Traffic
from muster.gateway.relay.limits import Limits, RequestKind
from muster.gateway.relay.paths import check_path, check_query
from muster.gateway.relay.pools import ClusterPools
from muster.gateway.relay.timeouts import HEAD_TIMEOUT, head_timeout, is_long_running
from muster.gateway.request_decision import Granted
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
from muster.http import Answer, Request, RequestBodyTooLarge, Takeover, UpstreamError, relay
from muster.http.upstream import encode_request, host_port
from muster.kube.front_proxy import USUAL, FrontProxyHeaders
from muster.kube.request_info import RequestInfo

CONNECT_TIMEOUT: Final = 10.0
NEXT_ENDPOINT_TIMEOUT: Final = 3.0
"""For connecting if there is another endpoint to try."""
MAX_BUFFERED_BODY: Final = 64 * 1024
"""A body up to this size is read before it is sent, so that it can be sent again with another credential."""
MIN_REFRESH_INTERVAL: Final = 2.0
"""Seconds for which the hub is not asked again for a credential that it has just confirmed."""
PROBE_TIMEOUT: Final = 10.0
IDLE_CLUSTER_TTL: Final = 900.0
"""Seconds after which the state of a cluster without requests is dropped."""
_MAX_PROBE_BODY: Final = 1024 * 1024
_UNAUTHORIZED: Final = 401

logger = logging.getLogger("muster.gateway.relay")


class ClusterRelay:
    """Sends requests to all clusters. `identity` returns the field names by which the hub's front proxies pass users: these
    fields, and those with the default names, are never sent to clusters."""

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
        self._traffic = traffic or NoTraffic()
        self._fields = headers.RequestFields(identity)
        self._connect_timeout = connect_timeout
        self._answer_timeout = answer_timeout
        self._clock = clock
        self._pools = ClusterPools(tunnels, cluster_proxy)
        self._clusters: dict[str, ClusterState] = {}
        self._in_flight: dict[str, set[InFlightRequest]] = {}

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
        still_allowed: StillAllowed | None = None,
    ) -> Answer:
        """Send `request` with `path` and `query` (both raw, as they were authorized) to `target`, and return the answer for the
        client.

        `inner` is the parsed form of `path` and `query`, `user` the one whose limits count. Errors are returned as answers too.
        With `still_allowed`, a long-running request is one of `open_streams`.
        """
        try:
            return await self._send(request, target, path, query, granted, inner, user, audit_id, still_allowed)
        except ApiError as error:
            return refusals.answer(error, (("Audit-Id", audit_id),))

    async def probe(self, target: Target, path: str) -> int:
        """The status code of the cluster's answer to a GET of `path`, on the same connections; raises ClusterError."""
        _check_usable(target)
        cluster = self._cluster(target)
        pool = cluster.pool_for(self._pools, target)
        fields = [("User-Agent", COMPONENT), ("Accept", "*/*")]
        if isinstance(target.credential, BearerToken):
            fields.append(headers.authorization(target.credential))
        context = await pool.context()
        failure: UpstreamError | None = None
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                for endpoint in cluster.ordered(target.endpoints):
                    host = ("Host", host_port(endpoint.host, endpoint.port))
                    encoded = encode_request("GET", endpoint.base_path + path, (host, *fields))
                    try:
                        head, _ = await pool.connections.request(
                            pool.key(endpoint, context),
                            encoded,
                            timeout=self._connect_timeout,
                            repeat=True,
                            longest=_MAX_PROBE_BODY,
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
            raise ClusterError(Problem(CLUSTER_TIMEOUT, f"no answer to a probe within {PROBE_TIMEOUT:g} s")) from None
        assert failure is not None, "a usable target has endpoints"
        problem = problem_of(failure, target)
        if not failure.sent:
            cluster.breaker.failed(problem)
        raise ClusterError(problem) from failure

    def abort(self, cluster: str, refusal: ApiError) -> None:
        """Abort all requests in flight to a cluster."""
        for in_flight_request in list(self._in_flight.pop(cluster, ())):
            in_flight_request.abort(refusal)

    def open_streams(self) -> list[InFlightRequest]:
        """Long-running requests in flight to any cluster, with `still_allowed`."""
        return [each for passages in self._in_flight.values() for each in passages if each.still_allowed is not None]

    def forget(self, cluster: str) -> None:
        """Drop the state of a cluster; requests in flight may end."""
        if not self._in_flight.get(cluster):
            self._in_flight.pop(cluster, None)
        known = self._clusters.pop(cluster, None)
        if known is not None:
            known.close()

    def close(self) -> None:
        """Close idle connections; those in use are closed when their exchange ends."""
        for cluster in list(self._clusters):
            self.forget(cluster)

    # Requests

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
        still_allowed: StillAllowed | None,
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
        kind = RequestKind.UPGRADE if request.upgrade else RequestKind.STREAM if is_long_running(inner) else RequestKind.REQUEST
        if refused := cluster.load.acquire(kind, user):
            raise refusals.unavailable(name, Problem(CLUSTER_BUSY, refused))
        protocol = (request.headers.get("upgrade") or "").strip().lower() if request.upgrade else ""
        backend = inner.subresource == "proxy" or inner.verb == "proxy"
        in_flight_request = InFlightRequest(
            target,
            kind,
            user,
            cluster.load,
            self._traffic,
            self._observer,
            protocol=protocol,
            backend=backend,
            in_flight=self._in_flight.setdefault(name, set()),
            still_allowed=None if kind is RequestKind.REQUEST else still_allowed,
        )
        timeout = head_timeout(query, self._answer_timeout) if kind is RequestKind.REQUEST else None
        sending = _OutgoingRequest(request, f"{path}?{query}" if query else path, granted, audit_id, timeout, in_flight_request)
        try:
            _check_usable(target)
            answer = await in_flight_request.run(lambda: self._send_with_renewal(cluster, sending))
        except ClusterError as failure:
            in_flight_request.end()
            in_flight_request.failed(failure.problem)
            raise refusals.unavailable(name, failure.problem) from None
        except headers.UnencodableUser as error:
            in_flight_request.end()
            raise refusals.not_impersonated(name, str(error)) from None
        except RequestBodyTooLarge:
            in_flight_request.end()
            raise refusals.body_too_large(name, self._limits.body) from None
        except BaseException:
            in_flight_request.end()
            raise
        return in_flight_request.track(answer)

    async def _send_with_renewal(self, cluster: ClusterState, sending: _OutgoingRequest) -> Answer:
        request, target = sending.request, sending.in_flight_request.target
        body = request.body_stream
        if body is not None and body.length is not None and body.length <= MAX_BUFFERED_BODY:
            await request.read_body()
        answer = await self._exchange(cluster, sending)
        if not _refuses(answer):
            self._observer.answered(target)
            return answer
        _discard(answer)
        renewed = await self._renewed_target(cluster, target)
        if renewed is not None and request.body_stream is None:
            sending.in_flight_request.target = renewed
            answer = await self._exchange(cluster, sending)
            if not _refuses(answer):
                self._observer.answered(renewed)
                return answer
            _discard(answer)
        raise ClusterError(Problem(CREDENTIAL_REFUSED, _refused_text(target)))

    async def _exchange(self, cluster: ClusterState, sending: _OutgoingRequest) -> Answer:
        """Sends by the first endpoint to which a connection succeeds. Raises ClusterError, RequestBodyTooLarge and ApiError."""
        if cluster.breaker.problem is not None and (seconds := cluster.breaker.remaining()) > 0:
            raise refusals.unavailable(cluster.name, cluster.breaker.problem, math.ceil(seconds))
        request, in_flight_request = sending.request, sending.in_flight_request
        target = in_flight_request.target
        pool = cluster.pool_for(self._pools, target)
        fields = self._fields.rewritten(
            request.headers,
            credential=target.credential,
            impersonated=sending.granted.impersonated,
            audit_id=sending.audit_id,
            upgrade=request.upgrade,
        )
        context = await pool.context()
        endpoints = cluster.ordered(target.endpoints)
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
                    review=in_flight_request.review,
                    meter=in_flight_request,
                )
            except UpstreamError as error:
                if not error.sent:
                    cluster.skip(endpoint)
                    if endpoint is not last:
                        continue
                problem = problem_of(error, target)
                if not error.sent:
                    cluster.breaker.failed(problem)
                raise ClusterError(problem) from error
            cluster.breaker.succeeded()
            return answer
        raise AssertionError("the last endpoint answers or fails")

    # Refused credentials

    async def _renewed_target(self, cluster: ClusterState, target: Target) -> Target | None:
        """A target with another credential than the refused one, if there is one in the cache or on the hub."""
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
        cluster.confirmed, cluster.confirmed_until = target.credential, self._clock() + MIN_REFRESH_INTERVAL
        return None

    async def _refresh(self, cluster: ClusterState) -> Target | None:
        try:
            return await self._targets.refreshed(cluster.name)
        except Exception as error:
            # Whatever the error is, the request fails because its credential was refused.
            logger.warning("credential not refreshed", extra={"cluster": cluster.name, "error": type(error).__name__})
            return None
        finally:
            cluster.refresh = None

    def _cluster(self, target: Target) -> ClusterState:
        cluster = self._clusters.get(target.cluster)
        if cluster is None:
            self._drop_unused()
            cluster = self._clusters[target.cluster] = ClusterState(target.cluster, self._limits, self._clock)
        cluster.last_used = self._clock()
        return cluster

    def _drop_unused(self) -> None:
        latest = self._clock() - IDLE_CLUSTER_TTL
        for name in [name for name, cluster in self._clusters.items() if cluster.last_used < latest and cluster.load.empty]:
            self.forget(name)


class _OutgoingRequest:
    """The parts of a request that stay the same when it is sent again."""

    __slots__ = ("audit_id", "granted", "head_timeout", "in_flight_request", "path", "request")

    def __init__(
        self,
        request: Request,
        path: str,
        granted: Granted,
        audit_id: str,
        head_timeout: float | None,
        in_flight_request: InFlightRequest,
    ) -> None:
        self.request = request
        self.path = path
        self.granted = granted
        self.audit_id = audit_id
        self.head_timeout = head_timeout
        self.in_flight_request = in_flight_request


def _check_usable(target: Target) -> None:
    """Raises ClusterError for a target to which nothing can be sent."""
    if target.problem is not None:
        raise ClusterError(target.problem)
    credential = target.credential
    if credential is None:
        raise ClusterError(Problem(CREDENTIAL_MISSING, "the hub has no credential for this cluster"))
    if not target.endpoints:
        raise ClusterError(Problem(ENDPOINT_MISSING, "the hub knows no address of this cluster's API server"))
    if credential.expires is not None and credential.expires <= datetime.now(UTC):
        text = f"the gateway's credential for this cluster expired at {credential.expires:%Y-%m-%dT%H:%M:%SZ} and was not renewed"
        raise ClusterError(Problem(CREDENTIAL_EXPIRED, text))


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
