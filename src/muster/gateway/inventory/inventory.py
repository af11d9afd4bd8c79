"""The inventory of clusters: four informers whose objects are resolved to one target per cluster whenever any of them changes.

It watches ManagedClusters, the Secrets of `managed-cluster-credentials`, and in all namespaces the Secrets and
ManagedServiceAccounts of one name, so the gateway can read no other Secret of the hub. If ManagedServiceAccounts are not served,
there are none until they are.

Nothing is resolved before all caches have synced: a Secret alone does not tell whether the hub has accepted its cluster. From
then on finding a target costs a lookup in a dict and a look at the clock, because credentials expire. `on_change` is called when
the published object of a cluster differs from the last one. An object that cannot be decoded does not affect other clusters.

When a cluster is removed from the hub, its gateway is removed even if its Secret remains, until that Secret is written again. A
process that starts later treats such a Secret as that of a cluster which was never registered.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeVar

import orjson

from muster.api import Document
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.api.cluster.v1 import ManagedCluster
from muster.gateway.inventory.document import document
from muster.gateway.inventory.health import Health
from muster.gateway.inventory.resolution import ResolvedCluster, Sources, expired, is_withdrawn, resolve_cluster
from muster.gateway.inventory.sources import (
    AccountSource,
    ClusterSource,
    Metadata,
    SecretSource,
    decode_account,
    decode_cluster,
    decode_secret,
    reduce_account,
    reduce_account_secret,
    reduce_cluster,
    reduce_credential,
)
from muster.gateway.names import COMPONENT, CREDENTIALS_NAMESPACE
from muster.gateway.target import CREDENTIAL_UNUSABLE, Problem, Target
from muster.machinery.clock import SYSTEM, Clock, Timer
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR
from muster.machinery.tasks import run_all
from muster.runtime.cache import Informer
from muster.runtime.client import KubeClient, KubeError, NotFound, served
from muster.runtime.client.builtin import SECRETS

log = get_logger("muster.gateway.inventory")

CLUSTERS: Final = served(ManagedCluster)
ACCOUNTS: Final = served(ManagedServiceAccount)
MIN_REFRESH_INTERVAL: Final = 0.5
"""Seconds for which an answer of the hub is reused, for a cluster that refuses every credential."""
MAX_TIMER: Final = 3600.0
"""Maximum seconds until the next comparison with the wall clock, which may have been set."""
CLUSTERS_PER_TURN: Final = 100
"""Clusters that are resolved before other tasks get a turn, when all of them are new."""

Publish = Callable[[str, Document | None], None]
T = TypeVar("T")


class _Accounts(Informer[AccountSource]):
    """For a kind that the hub may not serve, or no longer serve: then there are no objects."""

    def should_retry(self, error: KubeError) -> bool:
        if isinstance(error, NotFound):
            self._have_all(set(), "")
        return super().should_retry(error)


@dataclass(slots=True)
class _Entry:
    resolved: ResolvedCluster
    expired: Target | None = None
    """The target after the credential has expired; created on demand."""


@dataclass(slots=True)
class _Refresh:
    task: asyncio.Task[Target | None]
    since: float


@dataclass(slots=True)
class _Expiries:
    """The credentials by time of expiry."""

    heap: list[tuple[datetime, str]] = field(default_factory=list)
    timer: Timer | None = None


class Inventory:
    """Implements `Targets`. The owner runs `run` as a task. `tunnel` returns the base path of a cluster that has opened a tunnel,
    `cluster_proxy` says whether upstream's cluster-proxy is configured; `on_withdrawal` is called with every cluster whose
    requests in flight must be aborted."""

    def __init__(
        self,
        client: KubeClient,
        health: Health,
        on_change: Publish,
        *,
        on_withdrawal: Callable[[str], None] = lambda _: None,
        tunnel: Callable[[str], str | None] = lambda _: None,
        cluster_proxy: bool = False,
        loopback: bool = False,
        clock: Clock = SYSTEM,
    ) -> None:
        self._client = client
        self._health = health
        self._on_change = on_change
        self._on_withdrawal = on_withdrawal
        self._tunnel = tunnel
        self._cluster_proxy = cluster_proxy
        self._loopback = loopback
        self._clock = clock
        self._clusters: Informer[ClusterSource] = Informer(
            client, CLUSTERS, decode=decode_cluster, reduce=reduce_cluster, clock=clock
        )
        self._credentials: Informer[SecretSource] = Informer(
            client, SECRETS, CREDENTIALS_NAMESPACE, decode=decode_secret, reduce=reduce_credential, clock=clock
        )
        # RBAC evaluates this selector, so the gateway needs permission for this name only.
        named = f"metadata.name={COMPONENT}"
        self._tokens: Informer[SecretSource] = Informer(
            client, SECRETS, field_selector=named, decode=decode_secret, reduce=reduce_account_secret, clock=clock
        )
        self._accounts = _Accounts(
            client, ACCOUNTS, field_selector=named, decode=decode_account, reduce=reduce_account, clock=clock
        )
        self._live = False
        """All caches have synced: changes are resolved at once."""
        self._complete = False
        self._entries: dict[str, _Entry] = {}
        self._published: dict[str, bytes] = {}
        """Digests of the published objects."""
        self._stale_secrets: dict[str, str] = {}
        """Resource versions of Secrets that remained when their clusters were removed from the hub."""
        self._expiries = _Expiries()
        self._refreshes: dict[str, _Refresh] = {}
        self._clusters.on_change(self._cluster_changed)
        self._credentials.on_change(lambda old, new: self._update(_metadata_of(old, new).name))
        self._tokens.on_change(lambda old, new: self._update(_metadata_of(old, new).namespace))
        self._accounts.on_change(lambda old, new: self._update(_metadata_of(old, new).namespace))
        health.on_change(self._publish)

    # Targets

    def find(self, cluster: str) -> Target | None:
        entry = self._entries.get(cluster)
        if entry is None:
            return None
        resolved = entry.resolved
        if resolved.expires is None or resolved.target.problem is not None or not resolved.expired(self._clock.now()):
            return resolved.target
        if entry.expired is None:
            entry.expired = expired(resolved)
        return entry.expired

    def knows(self, cluster: str) -> bool:
        """Whether `find` finds it; called several times for every request."""
        return cluster in self._entries

    async def refreshed(self, cluster: str) -> Target | None:
        """While the hub does not answer, the cached state counts."""
        now = self._clock.monotonic()
        refresh = self._refreshes.get(cluster)
        if refresh is None or (refresh.task.done() and now - refresh.since > MIN_REFRESH_INTERVAL):
            for name in [
                name for name, one in self._refreshes.items() if one.task.done() and now - one.since > MIN_REFRESH_INTERVAL
            ]:
                del self._refreshes[name]
            refresh = self._refreshes[cluster] = _Refresh(asyncio.create_task(self._refresh(cluster)), now)
        # Several callers wait for the same read: a cancelled one must not cancel it for the others.
        return await asyncio.shield(refresh.task)

    def clusters(self) -> list[str]:
        """The names of all clusters that `find` finds."""
        return list(self._entries)

    def problem(self) -> str | None:
        """Why some clusters may not be known yet; None if all are known."""
        if self._complete:
            return None
        for informer in self._informers():
            if not informer.has_synced:
                return f"the cache of {informer.resource} has not synced yet" + (f": {informer.outage}" if informer.outage else "")
        return "clusters are being resolved"

    def tunnel_changed(self, cluster: str) -> None:
        """The first tunnel of a cluster was opened, or the last one closed."""
        if cluster in self._entries:
            self._update(cluster)

    # Watching the hub

    async def run(self) -> None:
        """Watch the hub until cancelled."""
        runnables: dict[str, Callable[[], Any]] = {
            "managed clusters": self._clusters.run,
            "credentials": self._credentials.run,
            "accounts' secrets": self._tokens.run,
            "accounts": self._accounts.run,
            "initial resolution": self._resolve_all,
        }
        try:
            await run_all(runnables)
        finally:
            if self._expiries.timer is not None:
                self._expiries.timer.cancel()
            for refresh in self._refreshes.values():
                refresh.task.cancel()

    async def _resolve_all(self) -> None:
        for informer in self._informers():
            await informer.synced()
        self._live = True
        for number, name in enumerate(self._names()):
            self._update(name)
            if number % CLUSTERS_PER_TURN == CLUSTERS_PER_TURN - 1:
                await asyncio.sleep(0)
        self._complete = True
        log.info("clusters resolved", clusters=len(self._entries))
        await asyncio.Event().wait()

    def _informers(self) -> tuple[Informer[Any], ...]:
        return self._clusters, self._credentials, self._tokens, self._accounts

    def _names(self) -> Iterable[str]:
        return dict.fromkeys(key.name for informer in (self._clusters, self._credentials) for key in informer.cache.all_keys())

    def _cluster_changed(self, old: ClusterSource | None, new: ClusterSource | None) -> None:
        name = _metadata_of(old, new).name
        if new is not None:
            self._stale_secrets.pop(name, None)
        elif (secret := self._credentials.cache.named(name, CREDENTIALS_NAMESPACE)) is not None:
            self._stale_secrets[name] = secret.metadata.resource_version
        self._update(name)

    def _update(self, name: str) -> None:
        """Resolve a cluster again."""
        if not self._live:
            return
        resolved = self._resolve(name, self._sources(name))
        before = self._entries.get(name)
        if resolved is None:
            if self._entries.pop(name, None) is not None:
                self._health.forget(name)
        else:
            if before is not None and before.resolved.target == resolved.target:
                # Connection pools compare targets by identity first.
                resolved = replace(resolved, target=before.resolved.target)
            self._entries[name] = _Entry(resolved)
            self._health.track(resolved.target)
            if before is None or before.resolved.expires != resolved.expires:
                self._schedule_expiry(name, resolved.expires)
        if before is not None and is_withdrawn(before.resolved, resolved):
            self._on_withdrawal(name)
        self._publish(name)

    def _sources(self, name: str) -> Sources:
        credential = self._credentials.cache.named(name, CREDENTIALS_NAMESPACE)
        if credential is None:
            self._stale_secrets.pop(name, None)
        return self._admitted(
            name,
            Sources(
                self._clusters.cache.named(name),
                credential,
                self._accounts.cache.named(COMPONENT, name),
                self._tokens.cache.named(COMPONENT, name),
                self._tunnel(name),
                self._cluster_proxy,
            ),
        )

    def _admitted(self, name: str, found: Sources) -> Sources:
        secret = found.credential
        if found.cluster is None and secret is not None and self._stale_secrets.get(name) == secret.metadata.resource_version:
            return replace(found, credential=None)
        return found

    def _resolve(self, name: str, found: Sources) -> ResolvedCluster | None:
        try:
            return resolve_cluster(name, found, loopback=self._loopback)
        except Exception as error:
            # Its text may quote what could not be parsed, possibly a secret.
            log.error("cluster not resolved", cluster=name, error=type(error).__name__)
            base = found.cluster or found.credential
            problem = Problem(
                CREDENTIAL_UNUSABLE, f"the hub's objects for cluster {name} cannot be parsed ({type(error).__name__})"
            )
            admitted = base is not None and (found.cluster is None or found.cluster.admitted)
            return ResolvedCluster(Target(name, problem=problem), Metadata(name), "", "") if admitted else None

    def _publish(self, name: str) -> None:
        """Publish the object of a cluster if it has changed."""
        entry = self._entries.get(name)
        try:
            if entry is None:
                if self._published.pop(name, None) is not None:
                    self._on_change(name, None)
                return
            shown = document(entry.resolved, self._health.status(name), self._clock.now())
            digest = hashlib.blake2b(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
            if self._published.get(name) != digest:
                self._on_change(name, shown)
                self._published[name] = digest
        except Exception as error:
            log.error("cluster not published", cluster=name, error=type(error).__name__)

    # Expiry of credentials

    def _schedule_expiry(self, name: str, expires: datetime | None) -> None:
        if expires is not None and expires > self._clock.now():
            heapq.heappush(self._expiries.heap, (expires, name))
            if self._expiries.heap[0] == (expires, name):
                self._set_timer()

    def _set_timer(self) -> None:
        expiries = self._expiries
        if expiries.timer is not None:
            expiries.timer.cancel()
            expiries.timer = None
        if expiries.heap:
            seconds = (expiries.heap[0][0] - self._clock.now()).total_seconds()
            expiries.timer = self._clock.call_later(min(max(seconds, 0.0), MAX_TIMER), self._expire)

    def _expire(self) -> None:
        heap, now = self._expiries.heap, self._clock.now()
        while heap and heap[0][0] <= now:
            self._publish(heapq.heappop(heap)[1])
        self._set_timer()

    # Reading from the hub itself

    async def _refresh(self, cluster: str) -> Target | None:
        try:
            found = await self._read_sources(cluster)
        except KubeError as error:
            log.warning("credential of cluster not refreshed", cluster=cluster, error=str(error))
            return self.find(cluster)
        resolved = self._resolve(cluster, self._admitted(cluster, found))
        if resolved is None:
            return None
        return expired(resolved) if resolved.target.problem is None and resolved.expired(self._clock.now()) else resolved.target

    async def _read_sources(self, cluster: str) -> Sources:
        managed, credential, account, token = await asyncio.gather(
            self._get(CLUSTERS, cluster, "", lambda raw: decode_cluster(reduce_cluster(raw))),
            self._get(SECRETS, cluster, CREDENTIALS_NAMESPACE, lambda raw: decode_secret(reduce_credential(raw))),
            self._get(ACCOUNTS, COMPONENT, cluster, lambda raw: decode_account(reduce_account(raw))),
            self._get(SECRETS, COMPONENT, cluster, lambda raw: decode_secret(reduce_account_secret(raw))),
        )
        return Sources(managed, credential, account, token, self._tunnel(cluster), self._cluster_proxy)

    async def _get(self, resource: GVR, name: str, namespace: str, read: Callable[[bytes], T]) -> T | None:
        try:
            return read(orjson.dumps(await self._client.get(resource, name, namespace)))
        except NotFound:
            return None


def _metadata_of(
    old: ClusterSource | SecretSource | AccountSource | None, new: ClusterSource | SecretSource | AccountSource | None
) -> Metadata:
    either = new or old
    assert either is not None, "a change has an old or a new object"
    return either.metadata
