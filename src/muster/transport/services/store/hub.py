"""A hub without Kubernetes: this process carries the embedded API server on a database, and the services stand on its store.

`sql_hub` opens it: SQLite for one process, PostgreSQL for any number of them. Each process serves the Kubernetes-style API on a
port of its own and writes a kubeconfig of its administrator, by which the hub's controllers, webhooks and people reach it; all of
them see the same objects. What has to be there before anybody joins (definitions, namespaces, accounts, roles) is installed by
whoever starts, as often as anybody starts: everything is applied, so it does not matter how many do it at once.

The API server starts before anything is installed and stops after the services have ended, so that nothing is told to agents of
which the database does not know.
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
"""The logical cluster that is the hub; the only one there is."""
SERVER_NAMESPACE: Final = "open-cluster-management-hub"
SERVER_ACCOUNT: Final = "grpc-server-sa"

Install = Callable[[KubeClient], Awaitable[None]]
"""Makes what a hub needs, with an administrator's client; must bear being done several times at once."""


@dataclass(frozen=True)
class SqlHubOptions:
    database: str
    """`sqlite:///file` (four slashes for an absolute path) or `postgresql://…`."""
    kubeconfig: Path
    """Where the administrator's kubeconfig is written, for its owner's eyes only."""
    host: str = "127.0.0.1"
    port: int = 0
    host_names: Sequence[str] = ()
    """Further names in the API server's certificate; the first one is what the kubeconfig leads to."""
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
        """An administrator's, in process: for reviews of tokens and rights, and for following roles."""
        return self._clients.administrator

    @property
    def url(self) -> str:
        return self.server.cluster_url(CLUSTER)

    def services(
        self, authorizer: Authorizer, rules: ClusterWriteRules | None = None, *, max_event: int = MAX_EVENT
    ) -> dict[DataType, Service]:
        """New ones; each service's `run` is to be a task of the caller. `authorizer` says what agents may."""
        return store_services(
            self.server.store, CLUSTER, self._clients, authorizer, rules=rules, max_event=max_event, clock=self._clock
        )

    def problem(self) -> str | None:
        """What keeps the hub from taking writes, for readiness; None if nothing does."""
        return self.server.store_problem()


@asynccontextmanager
async def sql_hub(options: SqlHubOptions, install: Install, *, clock: Clock = SYSTEM) -> AsyncIterator[SqlHub]:
    """Raises StoreError, OSError and what `install` raises."""
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
