"""What is known of clusters now: four informers, joined per cluster as soon as anything of it changes.

Followed are ManagedClusters, the Secrets of `managed-cluster-credentials`, and across namespaces the Secrets and the
ManagedServiceAccounts of one name, so the gateway can read no other Secret of the hub. ManagedServiceAccounts may not be served at
all; then there are none until they are.

Nothing is known before all of them have been read once: a Secret says nothing as long as it is open whether the hub has accepted
its cluster. From then on finding a target costs a look into a dict and one at the clock, because credentials end. What is shown of
a cluster is told (`on_change`) when it differs from what was told last. An object that cannot be read harms no other.

A cluster that is removed from the hub loses its gateway though its Secret remains, until that Secret is written again. A process
that starts later takes the Secret for that of a cluster which the hub never knew.
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
from muster.gateway.inventory.join import Joined, Sources, expired, join, withdrawn
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
REFRESH_DISTANCE: Final = 0.5
"""Seconds for which an answer of the hub counts: a cluster that refuses every credential must not make us ask on and on."""
LONGEST_TIMER: Final = 3600.0
"""Seconds after which to compare with the wall clock, which somebody may have set, at the latest."""
JOINED_AT_ONCE: Final = 100
"""Clusters that are joined before others get their turn, when all of them are new."""

Shown = Callable[[str, Document | None], None]
T = TypeVar("T")


class _Accounts(Informer[AccountSource]):
    """Of a kind that the hub may not have, or not any more: then there are none."""

    def should_retry(self, error: KubeError) -> bool:
        if isinstance(error, NotFound):
            self._have_all(set(), "")
        return super().should_retry(error)


@dataclass(slots=True)
class _Entry:
    joined: Joined
    expired: Target | None = None
    """What the target becomes when its credential has ended; made when it has."""


@dataclass(slots=True)
class _Refresh:
    task: asyncio.Task[Target | None]
    since: float


@dataclass(slots=True)
class _Expiries:
    """Which credential ends next."""

    heap: list[tuple[datetime, str]] = field(default_factory=list)
    timer: Timer | None = None


class Inventory:
    """Implements `Targets`. `run` is to be a task of its owner. `tunnel` gives the base path of a cluster that has opened one,
    `cluster_proxy` says whether the gateway has a way to upstream's; `on_withdrawal` hears of every cluster with which nothing that
    was begun may go on."""

    def __init__(
        self,
        client: KubeClient,
        health: Health,
        on_change: Shown,
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
        # By this selector the hub can tell that nothing else is asked for, and needs to allow nothing else.
        named = f"metadata.name={COMPONENT}"
        self._tokens: Informer[SecretSource] = Informer(
            client, SECRETS, field_selector=named, decode=decode_secret, reduce=reduce_account_secret, clock=clock
        )
        self._accounts = _Accounts(
            client, ACCOUNTS, field_selector=named, decode=decode_account, reduce=reduce_account, clock=clock
        )
        self._live = False
        """Everything was read once: what changes from now on is joined at once."""
        self._complete = False
        self._entries: dict[str, _Entry] = {}
        self._shown: dict[str, bytes] = {}
        """Digests of what was told last."""
        self._left: dict[str, str] = {}
        """Versions of the Secrets that clusters left behind when they were removed from the hub."""
        self._expiries = _Expiries()
        self._refreshes: dict[str, _Refresh] = {}
        self._clusters.on_change(self._cluster_changed)
        self._credentials.on_change(lambda old, new: self._update(_metadata_of(old, new).name))
        self._tokens.on_change(lambda old, new: self._update(_metadata_of(old, new).namespace))
        self._accounts.on_change(lambda old, new: self._update(_metadata_of(old, new).namespace))
        health.on_change(self._show)

    # What the relay asks.

    def find(self, cluster: str) -> Target | None:
        entry = self._entries.get(cluster)
        if entry is None:
            return None
        joined = entry.joined
        if joined.expires is None or joined.target.problem is not None or not joined.expired(self._clock.now()):
            return joined.target
        if entry.expired is None:
            entry.expired = expired(joined)
        return entry.expired

    def knows(self, cluster: str) -> bool:
        """Whether `find` finds it: asked several times of every request."""
        return cluster in self._entries

    async def refreshed(self, cluster: str) -> Target | None:
        """As long as the hub does not answer, what is known counts."""
        now = self._clock.monotonic()
        refresh = self._refreshes.get(cluster)
        if refresh is None or (refresh.task.done() and now - refresh.since > REFRESH_DISTANCE):
            for name in [name for name, one in self._refreshes.items() if one.task.done() and now - one.since > REFRESH_DISTANCE]:
                del self._refreshes[name]
            refresh = self._refreshes[cluster] = _Refresh(asyncio.create_task(self._ask(cluster)), now)
        # Several wait for the same answer: one that gives up must not take it from the others.
        return await asyncio.shield(refresh.task)

    def clusters(self) -> list[str]:
        """The names of all that `find` knows."""
        return list(self._entries)

    def ready(self) -> str | None:
        """Why there may be clusters that are not known yet; None when there are none."""
        if self._complete:
            return None
        for informer in self._informers():
            if not informer.has_synced:
                return f"{informer.resource} are not read yet" + (f": {informer.outage}" if informer.outage else "")
        return "clusters are being joined"

    def tunnel_changed(self, cluster: str) -> None:
        """There is one now, or there is none any more."""
        if cluster in self._entries:
            self._update(cluster)

    # Keeping up.

    async def run(self) -> None:
        """Follow the hub until cancelled."""
        runnables: dict[str, Callable[[], Any]] = {
            "managed clusters": self._clusters.run,
            "credentials": self._credentials.run,
            "accounts' secrets": self._tokens.run,
            "accounts": self._accounts.run,
            "first join": self._begin,
        }
        try:
            await run_all(runnables)
        finally:
            if self._expiries.timer is not None:
                self._expiries.timer.cancel()
            for refresh in self._refreshes.values():
                refresh.task.cancel()

    async def _begin(self) -> None:
        for informer in self._informers():
            await informer.synced()
        self._live = True
        for number, name in enumerate(self._names()):
            self._update(name)
            if number % JOINED_AT_ONCE == JOINED_AT_ONCE - 1:
                await asyncio.sleep(0)
        self._complete = True
        log.info("clusters joined", clusters=len(self._entries))
        await asyncio.Event().wait()

    def _informers(self) -> tuple[Informer[Any], ...]:
        return self._clusters, self._credentials, self._tokens, self._accounts

    def _names(self) -> Iterable[str]:
        return dict.fromkeys(key.name for informer in (self._clusters, self._credentials) for key in informer.cache.all_keys())

    def _cluster_changed(self, old: ClusterSource | None, new: ClusterSource | None) -> None:
        name = _metadata_of(old, new).name
        if new is not None:
            self._left.pop(name, None)
        elif (secret := self._credentials.cache.named(name, CREDENTIALS_NAMESPACE)) is not None:
            self._left[name] = secret.metadata.resource_version
        self._update(name)

    def _update(self, name: str) -> None:
        """Join a cluster anew."""
        if not self._live:
            return
        joined = self._join(name, self._sources(name))
        before = self._entries.get(name)
        if joined is None:
            if self._entries.pop(name, None) is not None:
                self._health.forget(name)
        else:
            if before is not None and before.joined.target == joined.target:
                # Whoever keeps connections by what a target says finds the very same.
                joined = replace(joined, target=before.joined.target)
            self._entries[name] = _Entry(joined)
            self._health.follow(joined.target)
            if before is None or before.joined.expires != joined.expires:
                self._expect(name, joined.expires)
        if before is not None and withdrawn(before.joined, joined):
            self._on_withdrawal(name)
        self._show(name)

    def _sources(self, name: str) -> Sources:
        credential = self._credentials.cache.named(name, CREDENTIALS_NAMESPACE)
        if credential is None:
            self._left.pop(name, None)
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
        if found.cluster is None and secret is not None and self._left.get(name) == secret.metadata.resource_version:
            return replace(found, credential=None)
        return found

    def _join(self, name: str, found: Sources) -> Joined | None:
        try:
            return join(name, found, loopback=self._loopback)
        except Exception as error:
            # Its text may quote what could not be read, a secret perhaps.
            log.error("cannot join cluster", cluster=name, error=type(error).__name__)
            base = found.cluster or found.credential
            problem = Problem(CREDENTIAL_UNUSABLE, f"what the hub has of cluster {name} cannot be read ({type(error).__name__})")
            admitted = base is not None and (found.cluster is None or found.cluster.admitted)
            return Joined(Target(name, problem=problem), Metadata(name), "", "") if admitted else None

    def _show(self, name: str) -> None:
        """Tell what is to be seen of a cluster, if that is not what was told last."""
        entry = self._entries.get(name)
        try:
            if entry is None:
                if self._shown.pop(name, None) is not None:
                    self._on_change(name, None)
                return
            shown = document(entry.joined, self._health.status(name), self._clock.now())
            digest = hashlib.blake2b(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
            if self._shown.get(name) != digest:
                self._on_change(name, shown)
                self._shown[name] = digest
        except Exception as error:
            log.error("cannot show cluster", cluster=name, error=type(error).__name__)

    # Expiry.

    def _expect(self, name: str, expires: datetime | None) -> None:
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
            expiries.timer = self._clock.call_later(min(max(seconds, 0.0), LONGEST_TIMER), self._expire)

    def _expire(self) -> None:
        heap, now = self._expiries.heap, self._clock.now()
        while heap and heap[0][0] <= now:
            self._show(heapq.heappop(heap)[1])
        self._set_timer()

    # Asking the hub itself.

    async def _ask(self, cluster: str) -> Target | None:
        try:
            found = await self._asked(cluster)
        except KubeError as error:
            log.warning("cannot ask for a cluster's credential", cluster=cluster, error=str(error))
            return self.find(cluster)
        joined = self._join(cluster, self._admitted(cluster, found))
        if joined is None:
            return None
        return expired(joined) if joined.target.problem is None and joined.expired(self._clock.now()) else joined.target

    async def _asked(self, cluster: str) -> Sources:
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
    assert either is not None, "a change has a before or an after"
    return either.metadata
