"""The gateway as a whole: what is known of clusters, who asks, what they may, the way to clusters, and the port, put together.

`GatewayServer` takes a client of the hub's API (with the gateway's own account) and options, so that a test, a fleet and `muster
gateway` run the very same thing. Every replica serves; there is no leader, and none writes anything to the hub.

Ready means that all clusters are known and by what callers are; it depends on no cluster. Stopping is announced: `/readyz` fails
first, requests under way may end within `DRAIN_GRACE`, and streams are cut then, upon which their clients come back elsewhere.
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
from muster.gateway.authorization import GatewayJudge, HubAccess, ImpersonationFile, JudgeOptions
from muster.gateway.front import GatewayFront
from muster.gateway.inventory import Health, Inventory, ProbeFailed
from muster.gateway.konnectivity.cluster_proxy import ClusterProxy, ClusterProxyOptions
from muster.gateway.metrics import ClusterState, GatewayMetrics
from muster.gateway.names import ATTACH, HEALTH, PROXY, RESOURCE
from muster.gateway.relay import ClusterProblem, ClusterRelay, PassageCut
from muster.gateway.rights import RightsOfStreams
from muster.gateway.serving import ServingSource
from muster.gateway.serving_tls import ServingTls, http2_context
from muster.gateway.target import Target
from muster.gateway.tunnel.attach import Attach
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
ANNOUNCED_FOR: Final = 0.5
"""Seconds for which `/readyz` fails before the port is closed."""
MAX_HEADERS: Final = 100
_STRANGERS: Final = 0.25
"""The part of connections and bodies in flight that is for clients who have proved nothing."""
_PROXY_VERBS: Final = ("get", "create", "update", "patch", "delete")


@dataclass(frozen=True)
class GatewayOptions:
    host: str = "127.0.0.1"
    port: int = 9444
    served: tuple[tuple[str, str], ...] = ((GROUP, VERSION),)
    """Groups and versions of the API, the usual one first."""
    loopback: bool = False
    """Clusters may be on this machine."""
    audit_log: Path | None = None
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    impersonation: ImpersonationFile | None = None
    cluster_proxy: ClusterProxyOptions | None = None
    """The way to clusters whose Secrets name upstream's cluster-proxy."""
    http2: bool = False
    """An aggregator that is offered it sends everything by one connection, so all but one of several replicas would idle."""


class GatewayServer(Manager):
    """`start`, then `run` until cancelled, then `stop`. `announce` is called when it first answers."""

    def __init__(
        self,
        client: KubeClient,
        options: GatewayOptions,
        serving: ServingSource,
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
        self._callers.on_rotation(self._tls.rotated)
        self._tunnels = Tunnels(self._tunnel_changed, clock=clock)
        self._cluster_proxy = ClusterProxy(options.cluster_proxy, clock=clock) if options.cluster_proxy is not None else None
        self.api = VirtualApi(
            ClusterGateway, served=options.served, subresources=self._subresources(), clock=clock.now, ready=self.problem
        )
        self._health = Health(clock=clock, random=random)
        self.inventory = Inventory(
            client,
            self._health,
            self._show,
            on_withdrawal=self._withdrawn,
            tunnel=self._tunnels.base_path,
            cluster_proxy=self._cluster_proxy is not None,
            loopback=options.loopback,
            clock=clock,
        )
        self._attach = Attach(self._tunnels, self.inventory)
        counted = GatewayMetrics(metrics, self.inventory.knows, clock=clock)
        self._counted = counted
        reviewer = AccessReviewer(client, clock=clock, reviewed=counted.reviewed)
        counted.read_review_cache(lambda: reviewer.cache.hits, lambda: reviewer.cache.misses)
        counted.read_clusters(self._states)
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
        judge = GatewayJudge(access, options.judge)
        if options.impersonation is not None:
            judge = GatewayJudge(access, options.judge, options.impersonation.impersonation)
            self.add("impersonation rules", options.impersonation, needs_leader_election=False)
        self._front = GatewayFront(
            self.api,
            options.served,
            authentication=self._callers,
            authorizer=reviewer,
            access=access,
            judge=judge,
            targets=self.inventory,
            relay=self._relay,
            metrics=counted,
            audit=self._audit,
        )
        rights = RightsOfStreams(self._relay.open_streams, clock=clock, random=random)
        parts = {
            "trust in callers": informers.run,
            "inventory": self.inventory.run,
            "health": lambda: self._health.run(self._probe),
            "serving certificate": lambda: self._serving.run(self._tls.certified),
            "authorities of callers": self._tls.run,
            "rights of open streams": rights.run,
            "announcement": self._announce,
        }
        for name, run in parts.items():
            self.add(name, RunnableFunc(run), needs_leader_election=False)
        self.add_ready_check("clusters", self.problem)

    @property
    def port(self) -> int:
        assert self._http is not None, "started"
        return self._http.port

    def problem(self) -> str | None:
        """Why requests cannot be served now."""
        if self._stopping:
            return "the gateway is about to stop"
        if not self._callers.ready:
            return "it is not known yet by what callers are known"
        if not self._tls.current:
            return "new connections are not verified by the authorities of callers yet"
        return self.inventory.ready()

    async def synced(self) -> None:
        await super().synced()
        await self._answering()

    async def _answering(self) -> None:
        while self.problem() is not None:
            await sleep(self._clock, 0.05)

    async def _announce(self) -> None:
        await self._answering()
        if self._announcement is not None:
            await self._announcement()
        await asyncio.Event().wait()

    async def start(self) -> None:
        """Raises OSError for a port that cannot be had and files that cannot be read, and what the client raises."""
        pair = await self._serving.load()
        await self.api.start()
        self._http = HttpServer(
            self._front.handle,
            tls=await self._tls.first(pair),
            max_headers=MAX_HEADERS,
            stream_body=self._front.streams,
            reads_bodies=True,
            strangers=_STRANGERS,
            on_error=_on_error,
            http2=self._options.http2,
        )
        await self._http.start(self._options.host, self._options.port)

    async def stop(self) -> None:
        self._stopping = True
        if self._http is not None:
            await sleep(self._clock, ANNOUNCED_FOR)
            # Tunnels end with the connections through them, those that are kept for later among them.
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
        # The hub\'s API server may have come before its authority was known, and would be nobody on that connection for ever.
        self._http.retire_unproven()

    # What is shown

    def _show(self, name: str, document: Mapping[str, Any] | None) -> None:
        if document is not None:
            self.api.put(document)
        else:
            self.api.remove(name)
            self._relay.forget(name)
            self._counted.forget(name)
            self._tunnels.forget(name)

    def _withdrawn(self, name: str) -> None:
        self._relay.cut(name, refusals.withdrawn(name))

    def _tunnel_changed(self, cluster: str) -> None:
        # What was learnt of the cluster without it, or with it, no longer counts; and connections through it need not be kept.
        target = self.inventory.find(cluster)
        if target is not None and (target.tunnel or self._tunnels.base_path(cluster) is not None):
            self._relay.forget(cluster)
        self.inventory.tunnel_changed(cluster)

    def _subresources(self) -> dict[str, VirtualSubresource]:
        return {
            PROXY: VirtualSubresource(_taken_before, _PROXY_VERBS, "ClusterGatewayProxyOptions", takes_path=True),
            HEALTH: VirtualSubresource(self._shown),
            ATTACH: VirtualSubresource(self._attached),
        }

    async def _shown(self, request: Request, who: UserInfo, name: str) -> Answer:
        """Upstream's `health` is the whole object, of which people read the status."""
        found = self.api.encoded(name)
        if found is None:
            raise refusals.unknown_cluster(name)
        return Response(200, found, [("Cache-Control", "no-cache, private")], "application/json")

    async def _attached(self, request: Request, who: UserInfo, name: str) -> Answer:
        return await self._attach(request, who, name)

    # Health

    async def _probe(self, target: Target, path: str) -> int:
        try:
            return await self._relay.ask(target, path)
        except ClusterProblem as failure:
            raise ProbeFailed(failure.problem) from None

    def _states(self) -> Iterable[ClusterState]:
        for name in self.inventory.clusters():
            target = self.inventory.find(name)
            if target is not None:
                expires = None if target.credential is None else target.credential.expires
                yield ClusterState(name, self._health.status(name).healthy, expires)


async def _taken_before(request: Request, who: UserInfo, name: str) -> Answer:
    """Every plain way to a cluster has been taken before the API is asked."""
    raise refusals.bad_path(f"write everything up to /{RESOURCE}/{name}/{PROXY} plainly", name)


def _on_error(request: Request | None, error: Exception) -> Response:
    method = request.method if request else ""
    if isinstance(error, UpstreamError):
        # A cluster's doing, which its health tells of: no cluster may fill the log with failures of the gateway.
        log.info("a cluster's answer broke off", method=method, problem=str(error))
    elif isinstance(error, PassageCut):
        log.info("an answer was cut off", method=method, reason=str(error))
    else:
        log.error("request failed", method=method, exc_info=error)
    problem: ApiError = internal("the gateway failed to handle the request; its log says why")
    return refusals.answer(problem)
