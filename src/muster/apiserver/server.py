"""The embedded API server put together: store, clusters, pipeline, TLS and HTTP, and the controllers that live in it.

`ApiServer` is used by `muster apiserver`, by the local fleet and by tests alike; clusters can be added as it runs. Start order is
store → identity → clusters → controllers → socket, stop order the reverse, so that nothing is served before it is true and nothing
acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from muster.apiserver import errors
from muster.apiserver.aggregation import Aggregator
from muster.apiserver.assembly import SUBRESOURCES, wire_cluster
from muster.apiserver.audit import Audit
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.cluster_keys import ClusterKeys, ClusterKeyStore
from muster.apiserver.auth.credential_cluster import claimed_cluster
from muster.apiserver.auth.identity import LOOPBACK
from muster.apiserver.auth.statictokens import StaticTokens
from muster.apiserver.auth.tokenwebhook import TokenWebhooks, WebhookTarget, load_webhook_config
from muster.apiserver.bootstrap import BootstrapLayer, bootstrap_objects
from muster.apiserver.builtin.resources import builtin_table
from muster.apiserver.client import DirectClient
from muster.apiserver.cluster import Clock, Cluster, StoreHealth, utc_now
from muster.apiserver.controllers import builtin_controllers
from muster.apiserver.controllers.namespaces import DELETION_GRACE_PERIOD
from muster.apiserver.fairness import FairQueue
from muster.apiserver.handlers import reviews
from muster.apiserver.long_running_requests import OpenRequests, Revocations
from muster.apiserver.nonresource.health import Health
from muster.apiserver.nonresource.metrics import ServerMetrics
from muster.apiserver.nonresource.paths import NonResourcePaths
from muster.apiserver.pipeline import Answer, Pipeline, status_response
from muster.apiserver.registry.table import ResourceTable
from muster.apiserver.request import split_cluster
from muster.apiserver.worker import SWITCH_SECONDS, Worker
from muster.http import HttpServer, Request, Response, server_context
from muster.http.upstream import host_port
from muster.kube.certificates import BACKDATE, SERVER_AUTH, CertificateAuthority, KeyPair
from muster.machinery.allocation import freeze_heap
from muster.machinery.authentication import MASTERS, UserInfo
from muster.machinery.logs import get_logger
from muster.store import Store, StoreError, Unavailable, open_store
from muster.store.api import Entry

log = get_logger(__name__)
DEFAULT_CLUSTER = "default"
CONTROLLERS = "kube-controller-manager"
"""Under this name Kubernetes' own controllers write; ours do what they do."""
_SYSTEM = "_system"
_STRANGERS = 0.25
"""The part of connections and bodies in flight that is for clients without a credential that counts."""
_SERVING_LIFETIME = timedelta(days=365)
_ADMIN_LIFETIME = timedelta(days=365)


@dataclass(slots=True)
class ServerConfig:
    data_dir: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    clusters: Sequence[str] = (DEFAULT_CLUSTER,)
    store: str = "sqlite"
    static_tokens: Mapping[str, UserInfo] = field(default_factory=dict)
    token_webhook: Path | None = None
    """The kubeconfig of whoever judges tokens for clusters that have nobody of their own."""
    token_webhooks: Mapping[str, Path] = field(default_factory=dict)
    """Theirs, by cluster; `ApiServer.set_token_webhook` says it while the server runs."""
    audit_log: Path | None = None
    clock: Clock = utc_now
    host_names: Sequence[str] = ()
    advertised_host: str = ""
    """What clients are told to connect to, where it is not `host`."""
    namespace_grace_period: float = DELETION_GRACE_PERIOD
    """Seconds that a deleted namespace keeps its content."""


class ApiServer:
    def __init__(self, config: ServerConfig, store: Store | None = None) -> None:
        self.config = config
        self.store = store if store is not None else open_store(config.store, config.data_dir)
        self.clusters: dict[str, Cluster] = {}
        self._adding: dict[str, asyncio.Task[Cluster]] = {}
        self._removing: set[str] = set()
        self.health = StoreHealth()
        self.worker = Worker()
        self._layer: BootstrapLayer | None = None
        self._keys: ClusterKeys
        self.token_webhooks = TokenWebhooks(
            load_webhook_config(config.token_webhook) if config.token_webhook else None,
            {name: load_webhook_config(path) for name, path in config.token_webhooks.items()},
        )
        self.audit = Audit(config.audit_log) if config.audit_log else None
        self.fairness = FairQueue()
        self.metrics = ServerMetrics(self)
        paths = NonResourcePaths(self.clusters, self.metrics, Health({"ping": lambda: None, "store": self.store_problem}))
        self._pipeline = Pipeline(paths, SUBRESOURCES, reviews.HANDLERS, self.fairness, self.metrics, self.audit)
        self._http: HttpServer
        self.controllers = builtin_controllers(self, _SYSTEM, config.namespace_grace_period)
        self._revocations = Revocations(self.store, self.clusters)
        self._probe: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return self._http.port

    @property
    def url(self) -> str:
        return f"https://{host_port(self.config.advertised_host or self.config.host, self.port)}"

    def cluster_url(self, name: str) -> str:
        return f"{self.url}/clusters/{name}"

    @property
    def ca_pem(self) -> bytes:
        """The CA that signed the serving certificate."""
        return self._keys.client_ca_pem

    async def start(self) -> None:
        await self.store.start()
        self.store.add_cluster(_SYSTEM)
        now = self.config.clock()
        self._keys = await ClusterKeyStore(self.store, _SYSTEM).keys(now)
        created = self._keys.client_ca.certificate.not_valid_before_utc + BACKDATE
        self._layer = BootstrapLayer(bootstrap_objects(self.ca_pem.decode()), created, self._keys_of, self._advertised)
        self._tls = self._tls_context()
        self._http = HttpServer(
            self.handle,
            tls=self._tls,
            stream_body=self._goes_elsewhere,
            reads_bodies=True,
            strangers=_STRANGERS,
            on_error=_on_error,
        )
        await self._http.start(self.config.host, self.config.port)
        self.controllers.start()
        self._revocations.start()
        for name in dict.fromkeys((*self.config.clusters, *self._stored_clusters())):
            await self.add_cluster(name)
        freeze_heap()
        sys.setswitchinterval(SWITCH_SECONDS)

    async def stop(self, grace: float = 5.0) -> None:
        await self._http.stop(grace)
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        self._revocations.stop()
        self.worker.close()
        await self.controllers.stop()
        await self.token_webhooks.close()
        await self.store.close()
        if self.audit is not None:
            self.audit.close()

    async def add_cluster(self, name: str) -> Cluster:
        """The cluster of that name, made if there is none; requests that ask for it at the same time get the same one."""
        found = self.clusters.get(name)
        if found is not None:
            return found
        adding = self._adding.get(name)
        if adding is None:
            adding = self._adding[name] = asyncio.create_task(self._add(name), name=f"add cluster {name}")
            adding.add_done_callback(lambda _: self._adding.pop(name, None))
        return await asyncio.shield(adding)

    async def _add(self, name: str) -> Cluster:
        self.store.add_cluster(name, self._layer)
        table = ResourceTable(builtin_table())
        cluster = Cluster(name, f"/clusters/{name}", self.store, table, self.config.clock, self.health, self.worker)
        static_tokens = StaticTokens(self.config.static_tokens)
        wire_cluster(cluster, static_tokens, self.token_webhooks.of(name), lambda: self.cluster_url(name))
        keys = await cluster.part(Access).key_store.keys(self.config.clock())
        self._tls.load_verify_locations(cadata=(keys.client_ca_pem + keys.proxy_ca_pem).decode())
        self.clusters[name] = cluster
        self._follow(cluster)
        self.controllers.enqueue_cluster(cluster)
        return cluster

    def _follow(self, cluster: Cluster) -> None:
        """Let go of a cluster when the store drops it: another server on the same database may have removed it."""

        def lost() -> None:
            if cluster.removed:
                return
            if cluster.part(Access).key_store.is_current():
                self._follow(cluster)
            else:
                self._forget(cluster)
                cluster.part(OpenRequests).end_all()

        cluster.part(Access).key_store.subscribe(lost)

    def _forget(self, cluster: Cluster) -> None:
        cluster.removed = True
        del self.clusters[cluster.name]
        self.controllers.forget(cluster.name)

    async def set_token_webhook(self, name: str, target: WebhookTarget | None) -> None:
        """Who judges a cluster's tokens from now on; None: whoever does where nobody is named. The cluster may be made later."""
        await self.token_webhooks.set(name, target)
        cluster = self.clusters.get(name)
        if cluster is not None:
            cluster.part(Access).forget_tokens()

    async def remove_cluster(self, name: str) -> None:
        """Stop serving a cluster and durably forget all it has; nothing happens if there is none."""
        cluster = self.clusters.get(name)
        if cluster is not None:
            self._forget(cluster)
        self._removing.add(name)
        try:
            await self.store.drop_cluster(name)
        finally:
            self._removing.discard(name)
            if cluster is not None:
                cluster.part(OpenRequests).end_all()

    async def handle(self, request: Request) -> Answer:
        name, path = self._addressed(request)
        cluster = self.clusters.get(name if name is not None else self._default_cluster())
        if cluster is None:
            # Another server on the same database may have added it.
            if name is None or name in self._removing or name not in self._stored_clusters():
                return status_response(errors.no_such_cluster(name or DEFAULT_CLUSTER))
            cluster = await self.add_cluster(name)
        return await self._pipeline.serve(cluster, request, path)

    def _goes_elsewhere(self, request: Request) -> bool:
        """Whether another API server takes the body: then it is passed on as it comes, however long."""
        name, path = self._addressed(request)
        cluster = self.clusters.get(name if name is not None else self._default_cluster())
        return cluster is not None and cluster.part(Aggregator).covering(path) is not None

    def _keys_of(self, name: str) -> ClusterKeys | None:
        cluster = self.clusters.get(name)
        return (ClusterKeyStore(self.store, name) if cluster is None else cluster.part(Access).key_store).existing()

    def _addressed(self, request: Request) -> tuple[str | None, str]:
        """(the cluster that the path names, else the one that the request's credential is of, path within it)."""
        name, path = split_cluster(request.raw_path)
        if name is None:
            claimed = claimed_cluster(request)
            if claimed is not None and (claimed in self.clusters or claimed in self._stored_clusters()):
                return claimed, path
        return name, path

    def _stored_clusters(self) -> list[str]:
        return [name for name in self.store.clusters() if not name.startswith("_")]

    def _advertised(self) -> tuple[str, int]:
        return self.config.advertised_host or self.config.host, self.port

    def _default_cluster(self) -> str:
        """Whom a path without a cluster and without a credential of one means: `default`, or the only one there is."""
        return next(iter(self.clusters)) if len(self.clusters) == 1 else DEFAULT_CLUSTER

    def store_problem(self) -> str | None:
        """What keeps the store from taking writes, for readiness; None if nothing does. A shared database is asked anew with each
        call, and the answer counts for the next: a server that nobody sends writes to, because it is not ready, must find out
        that it is."""
        if self.store.shared and (self._probe is None or self._probe.done()):
            self._probe = asyncio.create_task(self._ask_store(), name="probe of the store")
        return self.health.problem

    async def _ask_store(self) -> None:
        try:
            await self.store.synced()
        except Unavailable as error:
            self.health.problem = error.problem
        except StoreError as error:
            self.health.problem = str(error)
        else:
            self.health.problem = None

    def client(self, cluster: Cluster, user: UserInfo = LOOPBACK, agent: str = CONTROLLERS) -> DirectClient:
        """An in-process client: the same pipeline without a socket. `agent` is who owns the fields it writes."""
        return DirectClient(self._pipeline, cluster, user, agent)

    def template(self, cluster: Cluster, resource: str, key: str) -> Entry | None:
        """An object as every cluster is born with it."""
        found = self._layer.entries.get(resource, {}).get(key) if self._layer is not None else None
        return None if found is None or self._layer is None else self._layer.materialize(cluster.name, resource, found)

    async def admin_credentials(self, cluster: Cluster) -> KeyPair:
        keys = await cluster.part(Access).key_store.keys(self.config.clock())
        now = self.config.clock()
        return keys.client_ca.issue("kubernetes-admin", now, _ADMIN_LIFETIME, organizations=(MASTERS,))

    def _tls_context(self) -> ssl.SSLContext:
        authority: CertificateAuthority = self._keys.client_ca
        hosts = dict.fromkeys(
            (
                "localhost",
                "127.0.0.1",
                "::1",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
                self.config.host,
                *self.config.host_names,
                *filter(None, (self.config.advertised_host,)),
            )
        )
        pair = authority.issue("muster-apiserver", self.config.clock(), _SERVING_LIFETIME, usages=(SERVER_AUTH,), hosts=hosts)
        return server_context(pair.certificate, pair.key, authority.pem)


def _on_error(request: Request | None, error: Exception) -> Response:
    log.error(
        "request failed", method=request.method if request else "", target=request.raw_path if request else "", exc_info=error
    )
    return status_response(errors.internal("the server failed to handle the request; its log says why"))
