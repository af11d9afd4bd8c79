"""The embedded API server: assembles store, clusters, pipeline, TLS and HTTP, and the built-in controllers.

`ApiServer` is used by `muster apiserver`, the local fleet and tests; clusters can be added while it runs. It starts in the order
store → identity → clusters → controllers → socket and stops in reverse, so that nothing is served before it is initialized, and no
acknowledged write is lost.
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
from muster.apiserver.worker import SWITCH_INTERVAL, Worker
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
"""User agent, and so field manager, of the built-in controllers, as upstream."""
_SYSTEM = "_system"
_UNAUTHENTICATED_SHARE = 0.25
"""The share of connections and bodies in flight for clients that are not authenticated."""
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
    """Kubeconfig of the token webhook for clusters without their own."""
    token_webhooks: Mapping[str, Path] = field(default_factory=dict)
    """Kubeconfigs of token webhooks by cluster; `ApiServer.set_token_webhook` changes them while the server runs."""
    audit_log: Path | None = None
    clock: Clock = utc_now
    host_names: Sequence[str] = ()
    advertised_host: str = ""
    """The host that clients connect to, if it differs from `host`."""
    namespace_grace_period: float = DELETION_GRACE_PERIOD
    """Seconds between the deletion of a namespace and that of its content."""


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
            stream_body=self._is_proxied,
            reads_bodies=True,
            strangers=_UNAUTHENTICATED_SHARE,
            on_error=_on_error,
        )
        await self._http.start(self.config.host, self.config.port)
        self.controllers.start()
        self._revocations.start()
        for name in dict.fromkeys((*self.config.clusters, *self._stored_clusters())):
            await self.add_cluster(name)
        freeze_heap()
        sys.setswitchinterval(SWITCH_INTERVAL)

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
        """The cluster of that name, created if it does not exist; concurrent calls get the same one."""
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
        self._watch_removal(cluster)
        self.controllers.enqueue_cluster(cluster)
        return cluster

    def _watch_removal(self, cluster: Cluster) -> None:
        """Stop serving a cluster when the store drops it, which another server on the same database may do."""

        def lost() -> None:
            if cluster.removed:
                return
            if cluster.part(Access).key_store.is_current():
                self._watch_removal(cluster)
            else:
                self._stop_serving(cluster)
                cluster.part(OpenRequests).end_all()

        cluster.part(Access).key_store.subscribe(lost)

    def _stop_serving(self, cluster: Cluster) -> None:
        cluster.removed = True
        del self.clusters[cluster.name]
        self.controllers.forget(cluster.name)

    async def set_token_webhook(self, name: str, target: WebhookTarget | None) -> None:
        """Set the token webhook of a cluster, which may be created later; None for the default webhook."""
        await self.token_webhooks.set(name, target)
        cluster = self.clusters.get(name)
        if cluster is not None:
            cluster.part(Access).invalidate_tokens()

    async def remove_cluster(self, name: str) -> None:
        """Stop serving a cluster and delete all of its data; does nothing if it does not exist."""
        cluster = self.clusters.get(name)
        if cluster is not None:
            self._stop_serving(cluster)
        self._removing.add(name)
        try:
            await self.store.drop_cluster(name)
        finally:
            self._removing.discard(name)
            if cluster is not None:
                cluster.part(OpenRequests).end_all()

    async def handle(self, request: Request) -> Answer:
        name, path = self._addressed_cluster(request)
        cluster = self.clusters.get(name if name is not None else self._default_cluster())
        if cluster is None:
            # another server on the same database may have added it
            if name is None or name in self._removing or name not in self._stored_clusters():
                return status_response(errors.no_such_cluster(name or DEFAULT_CLUSTER))
            cluster = await self.add_cluster(name)
        return await self._pipeline.serve(cluster, request, path)

    def _is_proxied(self, request: Request) -> bool:
        """Whether the request is proxied to an aggregated API server, to which the body is streamed without a size limit."""
        name, path = self._addressed_cluster(request)
        cluster = self.clusters.get(name if name is not None else self._default_cluster())
        return cluster is not None and cluster.part(Aggregator).covering(path) is not None

    def _keys_of(self, name: str) -> ClusterKeys | None:
        cluster = self.clusters.get(name)
        return (ClusterKeyStore(self.store, name) if cluster is None else cluster.part(Access).key_store).existing()

    def _addressed_cluster(self, request: Request) -> tuple[str | None, str]:
        """(cluster in the path, else the issuer of the credential, else None; path within the cluster)"""
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
        """The cluster for paths and credentials that name none: the only one, else `default`."""
        return next(iter(self.clusters)) if len(self.clusters) == 1 else DEFAULT_CLUSTER

    def store_problem(self) -> str | None:
        """The reason why writes to the store fail, for readiness; None if they succeed. Each call starts a probe of a shared
        database, whose result is used by the next call: an unready server gets no writes and could not become ready otherwise."""
        if self.store.shared and (self._probe is None or self._probe.done()):
            self._probe = asyncio.create_task(self._probe_store(), name="probe of the store")
        return self.health.problem

    async def _probe_store(self) -> None:
        try:
            await self.store.synced()
        except Unavailable as error:
            self.health.problem = error.problem
        except StoreError as error:
            self.health.problem = str(error)
        else:
            self.health.problem = None

    def client(self, cluster: Cluster, user: UserInfo = LOOPBACK, agent: str = CONTROLLERS) -> DirectClient:
        """An in-process client: the same pipeline without a socket. `agent` is its field manager."""
        return DirectClient(self._pipeline, cluster, user, agent)

    def template(self, cluster: Cluster, resource: str, key: str) -> Entry | None:
        """An object of the bootstrap layer."""
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
    return status_response(errors.internal("the server failed to handle the request; see its log for the reason"))
