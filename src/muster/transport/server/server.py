"""Assembly of the gRPC server: services, broker, authentication, authorization, and the port.

`GrpcServer` takes a client of the hub's API (with the server's own account) and options, so that tests, fleets and `muster
grpc-server` run the same server. If objects are stored elsewhere, `services` makes the services. Every replica serves: there is no
leader election.

It is ready once every service is synced, except for kinds that the hub does not serve, once RBAC is cached or known to be
forbidden, and if the hub's API is available. On shutdown, clients get GOAWAY, then streams are ended with a code upon which agents
reconnect, and calls may end within `DRAIN_GRACE`.
"""

from __future__ import annotations

import asyncio
import random as chance
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from muster.api.cluster.write_rules import ClusterWriteRules
from muster.http.http2.server import ServerLimits
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.metrics import Metrics
from muster.runtime.auth import Authenticator, Authorizer, RbacAuthorizer, TokenReviewer
from muster.runtime.client import KubeClient
from muster.runtime.controller import Manager, RunnableFunc
from muster.transport.contract.event import MAX_EVENT
from muster.transport.contract.types import DataType
from muster.transport.rpc.server import RpcServer
from muster.transport.server.authentication import CallerAuthentication
from muster.transport.server.authorization import Authorization
from muster.transport.server.broker import HEARTBEAT_INTERVAL, Broker
from muster.transport.server.certificates import ServerTls
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.guard import StreamGuard
from muster.transport.server.hub_check import HubCheck
from muster.transport.server.metrics import CallMetrics
from muster.transport.server.service import CloudEventService
from muster.transport.services.interfaces import Service
from muster.transport.services.kube import kube_services

DRAIN_GRACE: Final = 10.0
ANNOUNCED_FOR: Final = 0.2
"""Seconds between GOAWAY and the end of streams."""
SYNC_CHECK_INTERVAL: Final = 0.05

Services = Callable[[Authorizer], Mapping[DataType, Service]]
"""Makes the services of all data types, with the authorizer of agents."""


@dataclass(frozen=True)
class GrpcServerOptions:
    config: GrpcServerConfig = field(default_factory=GrpcServerConfig)
    host: str = ""
    heartbeat: float | None = HEARTBEAT_INTERVAL
    """Seconds; None: no heartbeats are sent."""
    rules: ClusterWriteRules = field(default_factory=ClusterWriteRules)

    @property
    def max_event(self) -> int:
        """Bytes of the largest event that is sent."""
        return min(MAX_EVENT, self.config.max_send_message_size)


class GrpcServer(Manager):
    """`start`, then `run` until cancelled, then `stop`."""

    def __init__(
        self,
        client: KubeClient,
        options: GrpcServerOptions,
        *,
        services: Services | None = None,
        tokens: Authenticator | None = None,
        path: Callable[[str], Path] = Path,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        super().__init__()
        metrics = metrics or Metrics()
        config = options.config
        self._options = options
        self._clock = clock
        self._tls = ServerTls(config, path, clock=clock)
        self._rbac = RbacAuthorizer(client, clock=clock, random=random)
        authorization = Authorization(client, self._rbac, clock=clock)
        if services is None:
            made = kube_services(
                client, authorization, rules=options.rules, max_event=options.max_event, clock=clock, random=random
            )
        else:
            made = dict(services(authorization))
        self.broker = Broker(made.values(), heartbeat=options.heartbeat, max_event=options.max_event, clock=clock)
        authentication = CallerAuthentication(tokens or TokenReviewer(client, clock=clock), trusts=self._tls.trusts, clock=clock)
        hub = HubCheck(client, clock=clock)
        self._guard = StreamGuard(self.broker, authentication, authorization, clock=clock)
        service = CloudEventService(self.broker, authorization, metrics, clock=clock)
        self._authentication = authentication
        self._methods = service.methods
        self._observer = CallMetrics(metrics)
        self._rpc: RpcServer | None = None
        metrics.gauge("grpc_server_active_connections", "Connections.", lambda: self._rpc.connections if self._rpc else 0)
        metrics.gauge("grpc_server_publishes_in_flight", "Publish calls being carried out.", lambda: service.turns.in_flight)
        metrics.gauge("grpc_server_publishes_waiting", "Publish calls waiting for their turn.", lambda: service.turns.waiting)
        for data_type, one in made.items():
            self.add(f"service of {data_type}", one, needs_leader_election=False)
        self.add("RBAC", self._rbac, needs_leader_election=False)
        self.add("heartbeats", self.broker, needs_leader_election=False)
        self.add("the guard of streams", self._guard, needs_leader_election=False)
        self.add("the check of the hub", hub, needs_leader_election=False)
        self.add("TLS files", RunnableFunc(lambda: self._tls.run(self._replace_tls)), needs_leader_election=False)
        self.add_ready_check("objects", self._unsynced)
        self.add_ready_check("hub", hub.problem)
        self.add_ready_check("rbac", lambda: None if self._knows_rbac else "RBAC is not taken in yet")

    async def start(self) -> None:
        """Listen. Raises OSError, and ConfigError for invalid files."""
        config = self._options.config
        self._rpc = RpcServer(
            self._methods,
            self._authentication,
            tls=await self._tls.load(),
            max_receive=config.max_receive_message_size,
            limits=_limits(config),
            observer=self._observer,
            clock=self._clock,
        )
        await self._rpc.start(self._options.host, config.server_bind_port)

    @property
    def port(self) -> int:
        assert self._rpc is not None, "started"
        return self._rpc.port

    async def synced(self) -> None:
        while not self.ready:
            await sleep(self._clock, SYNC_CHECK_INTERVAL)

    @property
    def ready(self) -> bool:
        return self.broker.synced and self._knows_rbac

    @property
    def _knows_rbac(self) -> bool:
        """Whether RBAC is cached, or cannot be: then every check is reviewed by the hub, which is slower but just as safe."""
        return self._rbac.followed or bool(self._rbac.outage)

    def _unsynced(self) -> str | None:
        services = self.broker.services.items()
        missing = [str(data_type) for data_type, service in services if service.served and not service.synced]
        return f"not all objects are known of {', '.join(missing)}" if missing else None

    async def stop(self, grace: float = DRAIN_GRACE) -> None:
        if self._rpc is None:
            return
        stopping = asyncio.ensure_future(self._rpc.stop(grace))
        try:
            await sleep(self._clock, ANNOUNCED_FOR)
            self.broker.stop()
        finally:
            await stopping

    def _replace_tls(self, context: ssl.SSLContext) -> None:
        assert self._rpc is not None, "started"
        self._rpc.replace_tls(context)
        self._guard.recheck_all()


def _limits(config: GrpcServerConfig) -> ServerLimits:
    limits = ServerLimits(
        connection_timeout=config.connection_timeout,
        min_ping_interval=config.client_min_ping_interval,
        permit_ping_without_stream=config.permit_ping_without_stream,
        max_connection_age=config.max_connection_age,
        ping_interval=config.server_ping_interval,
        ping_timeout=config.server_ping_timeout,
    )
    return limits if config.max_concurrent_streams is None else replace(limits, max_streams=config.max_concurrent_streams)
