"""A hub without Kubernetes: this process runs the embedded API server on a database, and the services use its store.

`sql_hub` opens it: SQLite for one process, PostgreSQL for any number of them. Each process serves the Kubernetes API on its own
port and writes an administrator's kubeconfig, for the hub's controllers, webhooks and users; all processes share the objects. Each
process installs what the hub needs (CRDs, namespaces, accounts, roles) at its start: everything is applied, so concurrent
installations are harmless.

The API server starts before the installation and stops after the services, so that agents receive nothing that is not in the
database.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api.cluster.write_rules import ClusterWriteRules
from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer, ServerConfig
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.machinery.privatefiles import make_directories
from muster.runtime.auth import Authorizer
from muster.runtime.client import KubeClient
from muster.store import open_store
from muster.transport.contract.event import MAX_EVENT
from muster.transport.contract.types import DataType
from muster.transport.services.interfaces import Service
from muster.transport.services.store.clients import HubClients
from muster.transport.services.store.services import store_services

log = get_logger(__name__)

CLUSTER: Final = "hub"
"""The logical cluster of the hub; the only one."""
SERVER_NAMESPACE: Final = "open-cluster-management-hub"
SERVER_ACCOUNT: Final = "grpc-server-sa"

Install = Callable[[KubeClient], Awaitable[None]]
"""Installs what a hub needs, with an administrator's client; must be safe to run concurrently."""


@dataclass(frozen=True)
class SqlHubOptions:
    database: str
    """`sqlite:///file` (four slashes for an absolute path) or `postgresql://…`."""
    kubeconfig: Path
    """The path of the administrator's kubeconfig, readable by its owner only."""
    host: str = "127.0.0.1"
    port: int = 0
    host_names: Sequence[str] = ()
    """Further names in the API server's certificate; the first one is the kubeconfig's server."""
    audit_log: Path | None = None
    namespace: str = SERVER_NAMESPACE
    account: str = SERVER_ACCOUNT


class SqlHub:
    def __init__(self, server: ApiServer, clients: HubClients, clock: Clock) -> None:
        self.server = server
        self._clients = clients
        self._clock = clock

    @property
    def client(self) -> KubeClient:
        """An administrator's client, in process: for token and access reviews, and for watching roles."""
        return self._clients.administrator

    @property
    def url(self) -> str:
        return self.server.cluster_url(CLUSTER)

    def services(
        self, authorizer: Authorizer, rules: ClusterWriteRules | None = None, *, max_event: int = MAX_EVENT
    ) -> dict[DataType, Service]:
        """New services; the caller runs each service's `run` as a task. `authorizer` authorizes agents."""
        return store_services(
            self.server.store, CLUSTER, self._clients, authorizer, rules=rules, max_event=max_event, clock=self._clock
        )

    def problem(self) -> str | None:
        """Why the hub accepts no writes, for readiness; None if it does."""
        return self.server.store_problem()


@asynccontextmanager
async def sql_hub(options: SqlHubOptions, install: Install, *, clock: Clock = SYSTEM) -> AsyncIterator[SqlHub]:
    """Raises StoreError, OSError and the errors of `install`."""
    make_directories(options.kubeconfig.parent)
    config = ServerConfig(
        host=options.host,
        port=options.port,
        clusters=(CLUSTER,),
        clock=clock.now,
        host_names=options.host_names,
        advertised_host=options.host_names[0] if options.host_names else "",
        audit_log=options.audit_log,
    )
    store = open_store(options.database)
    server = ApiServer(config, store)
    try:
        await server.start()
    except BaseException:
        await store.close()
        raise
    try:
        cluster = server.clusters[CLUSTER]
        clients = HubClients(server, cluster, options.namespace, options.account)
        await clients.install_account()
        await install(clients.administrator)
        await write_kubeconfig(server, options.kubeconfig)
        log.info("hub serves", url=server.cluster_url(CLUSTER), kubeconfig=str(options.kubeconfig))
        yield SqlHub(server, clients, clock)
    finally:
        await server.stop()
