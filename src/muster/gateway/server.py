"""The gateway's server: inventory, authentication, authorization, relay and HTTP server.

`GatewayServer` takes a client of the hub's API (with the gateway's own account) and options, so that a test, a fleet and `muster
gateway` run the same code. Every replica serves; there is no leader election, and no replica writes to the hub.

The server is ready when all clusters are known and callers can be authenticated; it does not depend on any cluster. On shutdown
`/readyz` fails first, requests in flight may end within `DRAIN_GRACE`, and then streams are aborted, after which their clients
reconnect to another replica.
"""

from __future__ import annotations

import asyncio
import random as chance
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.api.proxy.v1alpha1 import GROUP, VERSION, ClusterGateway
from muster.apiserver.audit import Audit
from muster.apiserver.errors import ApiError, internal
from muster.apiserver.virtual import Answer, VirtualApi, VirtualSubresource
from muster.gateway import refusals
from muster.gateway.authorization import AuthorizationOptions, GatewayAuthorizer, HubAccess, ImpersonationFile
from muster.gateway.handler import GatewayHandler
from muster.gateway.inventory import Health, Inventory, ProbeFailed
from muster.gateway.konnectivity.cluster_proxy import ClusterProxy, ClusterProxyOptions
from muster.gateway.metrics import ClusterStatus, GatewayMetrics
from muster.gateway.names import ATTACH, HEALTH, PROXY, RESOURCE
from muster.gateway.relay import ClusterError, ClusterRelay, RequestAborted
from muster.gateway.serving_certificate import ServingCertificateSource
from muster.gateway.serving_tls import ServingTls, http2_context
from muster.gateway.stream_access import StreamAccessReviewer
from muster.gateway.target import Target
from muster.gateway.tunnel.attach import AttachHandler
from muster.gateway.tunnel.tunnels import Tunnels
from muster.http import HttpServer, Request, Response, UpstreamError, server_context
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.confinement import own
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.runtime.auth import AccessReviewer, CallerAuthentication, TokenReviewer
from muster.runtime.cache import Informers
from muster.runtime.client import KubeClient
from muster.runtime.controller import Manager, RunnableFunc

log = get_logger("muster.gateway")

DRAIN_GRACE: Final = 10.0
SHUTDOWN_DELAY: Final = 0.5
"""Seconds for which `/readyz` fails before the port is closed."""
MAX_HEADERS: Final = 100
_UNAUTHENTICATED_SHARE: Final = 0.25
"""Share of the connections and of the bodies in flight that is available to unauthenticated clients."""
_PROXY_VERBS: Final = ("get", "create", "update", "patch", "delete")


@dataclass(frozen=True)
class GatewayOptions:
    host: str = "127.0.0.1"
    port: int = 9444
    served: tuple[tuple[str, str], ...] = ((GROUP, VERSION),)
    """Groups and versions of the API, the preferred one first."""
    loopback: bool = False
    """Whether clusters may be on this machine."""
    audit_log: Path | None = None
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    impersonation: ImpersonationFile | None = None
    cluster_proxy: ClusterProxyOptions | None = None
    """How to reach clusters whose Secrets name upstream's cluster-proxy."""
    http2: bool = False
    """Whether to offer HTTP/2. kube-aggregator then sends everything on one connection, so all but one of several replicas would
    be idle."""


class GatewayServer(Manager):
    """`start`, then `run` until cancelled, then `stop`. `announce` is called when the server is ready for the first time."""

    def __init__(
        self,
        client: KubeClient,
        options: GatewayOptions,
        serving: ServingCertificateSource,
        *,
        announce: Callable[[], Awaitable[None]] | None = None,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        super().__init__()
        metrics = metrics or Metrics()
        self._options = options
        self._serving = serving
        self._announcement = announce
        self._clock = clock
        self._stopping = False
        self._http: HttpServer | None = None
        self._audit = Audit(own(options.audit_log)) if options.audit_log is not None else None
        informers = Informers(client, clock=clock, random=random)
        self._callers = CallerAuthentication(informers, tokens=TokenReviewer(client, clock=clock), clock=clock)
        self._tls = ServingTls(self._callers.client_cas, self._replace_tls, make=http2_context if options.http2 else server_context)
        self._callers.on_rotation(self._tls.authorities_changed)
        self._tunnels = Tunnels(self._tunnel_changed, clock=clock)
        self._cluster_proxy = ClusterProxy(options.cluster_proxy, clock=clock) if options.cluster_proxy is not None else None
        self.api = VirtualApi(
            ClusterGateway, served=options.served, subresources=self._subresources(), clock=clock.now, ready=self.problem
        )
        self._health = Health(clock=clock, random=random)
        self.inventory = Inventory(
            client,
            self._health,
            self._publish,
            on_withdrawal=self._withdrawn,
            tunnel=self._tunnels.base_path,
            cluster_proxy=self._cluster_proxy is not None,
            loopback=options.loopback,
            clock=clock,
        )
        self._attach = AttachHandler(self._tunnels, self.inventory)
        counted = GatewayMetrics(metrics, self.inventory.knows, clock=clock)
        self._counted = counted
        reviewer = AccessReviewer(client, clock=clock, reviewed=counted.reviewed)
        counted.read_review_cache(lambda: reviewer.cache.hits, lambda: reviewer.cache.misses)
        counted.read_clusters(self._cluster_statuses)
        callers = self._callers
        self._relay = ClusterRelay(
            self.inventory,
            self._health,
            traffic=counted,
            tunnels=self._tunnels,
            cluster_proxy=self._cluster_proxy,
            identity=lambda: callers.headers,
        )
        access = HubAccess(reviewer)
        request_authorizer = GatewayAuthorizer(access, options.authorization)
        if options.impersonation is not None:
            request_authorizer = GatewayAuthorizer(access, options.authorization, options.impersonation.impersonation)
            self.add("impersonation rules", options.impersonation, needs_leader_election=False)
        self._handler = GatewayHandler(
            self.api,
            options.served,
            authentication=self._callers,
            authorizer=reviewer,
            access=access,
            request_authorizer=request_authorizer,
            targets=self.inventory,
            relay=self._relay,
            metrics=counted,
            audit=self._audit,
        )
        stream_access = StreamAccessReviewer(self._relay.open_streams, clock=clock, random=random)
        runnables = {
            "callers' authentication": informers.run,
            "inventory": self.inventory.run,
            "health": lambda: self._health.run(self._probe),
            "serving certificate": lambda: self._serving.run(self._tls.set_certificate),
            "callers' certificate authorities": self._tls.run,
            "access of open streams": stream_access.run,
            "announcement": self._announce,
        }
        for name, run in runnables.items():
            self.add(name, RunnableFunc(run), needs_leader_election=False)
        self.add_ready_check("clusters", self.problem)

    @property
    def port(self) -> int:
        assert self._http is not None, "started"
        return self._http.port

    def problem(self) -> str | None:
        """Why requests cannot be served now."""
        if self._stopping:
            return "the gateway is shutting down"
        if not self._callers.ready:
            return "the gateway has not read yet how callers are authenticated"
        if not self._tls.is_current:
            return "client certificates are not verified with the current certificate authorities yet"
        return self.inventory.problem()

    async def synced(self) -> None:
        await super().synced()
        await self._until_ready()

    async def _until_ready(self) -> None:
        while self.problem() is not None:
            await sleep(self._clock, 0.05)

    async def _announce(self) -> None:
        await self._until_ready()
        if self._announcement is not None:
            await self._announcement()
        await asyncio.Event().wait()

    async def start(self) -> None:
        """Raises OSError if the port cannot be bound or a file cannot be read, and the client's errors."""
        pair = await self._serving.load()
        await self.api.start()
        self._http = HttpServer(
            self._handler.handle,
            tls=await self._tls.initial_context(pair),
            max_headers=MAX_HEADERS,
            stream_body=self._handler.streams,
            reads_bodies=True,
            strangers=_UNAUTHENTICATED_SHARE,
            on_error=_on_error,
            http2=self._options.http2,
        )
        await self._http.start(self._options.host, self._options.port)

    async def stop(self) -> None:
        self._stopping = True
        if self._http is not None:
            await sleep(self._clock, SHUTDOWN_DELAY)
            # Tunnels end when the connections through them do, including idle ones.
            self._relay.close()
            self._tunnels.close()
            await self._http.stop(DRAIN_GRACE)
            await self.api.stop()
        self._relay.close()
        if self._cluster_proxy is not None:
            await self._cluster_proxy.close()
        if self._audit is not None:
            self._audit.close()

    def _replace_tls(self, context: ssl.SSLContext) -> None:
        assert self._http is not None, "started"
        self._http.replace_tls(context)
        # The hub's API server may have connected before its authority was known, and would stay anonymous on that connection.
        self._http.retire_unproven()

    # ClusterGateways

    def _publish(self, name: str, document: Mapping[str, Any] | None) -> None:
        if document is not None:
            self.api.put(document)
        else:
            self.api.remove(name)
            self._relay.forget(name)
            self._counted.forget(name)
            self._tunnels.forget(name)

    def _withdrawn(self, name: str) -> None:
        self._relay.abort(name, refusals.withdrawn(name))

    def _tunnel_changed(self, cluster: str) -> None:
        # What the relay knows about the cluster may no longer hold; idle connections are dropped too.
        target = self.inventory.find(cluster)
        if target is not None and (target.tunnel or self._tunnels.base_path(cluster) is not None):
            self._relay.forget(cluster)
        self.inventory.tunnel_changed(cluster)

    def _subresources(self) -> dict[str, VirtualSubresource]:
        return {
            PROXY: VirtualSubresource(_refuse_proxy, _PROXY_VERBS, "ClusterGatewayProxyOptions", takes_path=True),
            HEALTH: VirtualSubresource(self._serve_health),
            ATTACH: VirtualSubresource(self._serve_attach),
        }

    async def _serve_health(self, request: Request, who: UserInfo, name: str) -> Answer:
        """Upstream's `health` returns the whole object, of which people read the status."""
        found = self.api.encoded(name)
        if found is None:
            raise refusals.unknown_cluster(name)
        return Response(200, found, [("Cache-Control", "no-cache, private")], "application/json")

    async def _serve_attach(self, request: Request, who: UserInfo, name: str) -> Answer:
        return await self._attach(request, who, name)

    # Health

    async def _probe(self, target: Target, path: str) -> int:
        try:
            return await self._relay.probe(target, path)
        except ClusterError as failure:
            raise ProbeFailed(failure.problem) from None

    def _cluster_statuses(self) -> Iterable[ClusterStatus]:
        for name in self.inventory.clusters():
            target = self.inventory.find(name)
            if target is not None:
                expires = None if target.credential is None else target.credential.expires
                yield ClusterStatus(name, self._health.status(name).healthy, expires)


async def _refuse_proxy(request: Request, who: UserInfo, name: str) -> Answer:
    """The handler serves every plain path to a cluster itself; only disguised ones get here."""
    raise refusals.bad_path(f"write everything up to /{RESOURCE}/{name}/{PROXY} plainly", name)


def _on_error(request: Request | None, error: Exception) -> Response:
    method = request.method if request else ""
    if isinstance(error, UpstreamError):
        # Caused by the cluster, whose health reports it: no cluster may fill the log with errors of the gateway.
        log.info("answer of cluster incomplete", method=method, problem=str(error))
    elif isinstance(error, RequestAborted):
        log.info("answer aborted", method=method, reason=str(error))
    else:
        log.error("request failed", method=method, exc_info=error)
    problem: ApiError = internal("the gateway failed to handle the request; its log says why")
    return refusals.answer(problem)
