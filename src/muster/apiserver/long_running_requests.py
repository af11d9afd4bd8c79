"""Long-running requests (watches, followed logs, proxied streams), and their end when the right to them ends.

kube-apiserver admits such a request once and lets it run as long as it likes. Here it is checked again whenever the right to it may
have ended: when a role or binding of its cluster is changed or deleted (new ones only add rights), when the account, pod, node or
Secret that a token is bound to is deleted, and when its certificate or token expires. Requests that are still allowed continue;
others are asked to end, and aborted if they do not. Nothing is checked per event of a watch.

`OpenRequests` has those of one cluster; `Revocations` follows the store for all clusters of a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from muster.apiserver.auth.access import Access
from muster.apiserver.auth.bootstraptokens import SECRETS as BOOTSTRAP_SECRETS
from muster.apiserver.auth.bootstraptokens import USER_PREFIX as BOOTSTRAP_PREFIX
from muster.apiserver.auth.credentials import expiration_times
from muster.apiserver.auth.grants import RBAC_RESOURCES
from muster.apiserver.auth.serviceaccounts import TOKEN_SECRET_MARKER, USER_PREFIX, is_current
from muster.apiserver.cluster import Cluster
from muster.apiserver.errors import ApiError
from muster.http import RawConnection, Request, StreamResponse, StreamWriter, Takeover
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.logs import get_logger
from muster.store.api import Event, Store, Subscription

log = get_logger(__name__)

REVIEW_DELAY = 0.1
"""Seconds in which changes of roles and bindings are collected before open requests are checked."""
ABORT_DELAY = 1.0
"""Seconds after which a stream is aborted that was asked to end."""
_EXPIRATION_MARGIN = 0.1
_REVIEW_BATCH = 256
_BOUND_RESOURCES = ("/serviceaccounts", "/pods", "/nodes", "/secrets")
_EXTRA = "authentication.kubernetes.io/"


class OpenRequest:
    """One request as it was admitted. `caller` has sent it; impersonation is evaluated again with each check."""

    __slots__ = ("attributes", "caller", "connection", "in_process", "request", "timer")

    def __init__(self, request: Request, caller: UserInfo, attributes: AccessAttributes, *, in_process: bool) -> None:
        self.request = request
        self.caller = caller
        self.attributes = attributes
        self.in_process = in_process
        """Sent by an in-process client, which has no credentials."""
        self.connection: StreamWriter | RawConnection | None = None
        self.timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        connection = self.connection
        self.cancel_timer()
        if isinstance(connection, RawConnection):
            connection.abort()
        elif connection is not None:
            connection.announce_end()
            self.timer = asyncio.get_running_loop().call_later(ABORT_DELAY, connection.abort)

    def set_timer(self, seconds: float, due: Callable[[OpenRequest], None]) -> None:
        self.cancel_timer()
        self.timer = asyncio.get_running_loop().call_later(seconds, due, self)

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class OpenRequests:
    """The open requests of one cluster. `generation` counts the changes that may have revoked rights."""

    __slots__ = ("_cluster", "_open", "_review", "_reviewing", "generation")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open: dict[OpenRequest, None] = {}
        self._review: asyncio.TimerHandle | None = None
        self._reviewing: set[asyncio.Task[None]] = set()
        self.generation = 0

    def __len__(self) -> int:
        return len(self._open)

    def track(self, answer: StreamResponse | Takeover, opened: OpenRequest, admitted_at: int) -> None:
        """Track the request while its answer runs. `admitted_at` is the generation at which it was admitted."""
        run: Callable[[Any], Any] = answer.run

        async def tracked(connection: Any) -> None:
            opened.connection = connection
            self._open[opened] = None
            try:
                self._schedule_expiration(opened)
                if admitted_at != self.generation:
                    self._start_review((opened,), self._is_still_admitted)
                await run(connection)
            finally:
                self._open.pop(opened, None)
                opened.cancel_timer()
                opened.connection = None

        answer.run = tracked

    def rights_changed(self) -> None:
        """A role or binding was changed or deleted."""
        self.generation += 1
        if self._open and self._review is None:
            self._review = asyncio.get_running_loop().call_later(REVIEW_DELAY, self._review_rights)

    def identities_changed(self, is_affected: Callable[[UserInfo], bool]) -> None:
        """Objects that the tokens of some callers are bound to were changed or deleted."""
        self.generation += 1
        self._start_review([opened for opened in self._open if is_affected(opened.caller)], self._is_still_admitted)

    def review_all(self) -> None:
        """Check all requests, because events were missed."""
        self.generation += 1
        self._start_review([*self._open], self._is_still_admitted)

    def end_all(self) -> None:
        """End all requests, because the cluster was removed."""
        for opened in [*self._open]:
            opened.end()

    def _review_rights(self) -> None:
        self._review = None

        async def is_allowed(opened: OpenRequest) -> bool:
            return self._is_allowed(opened)

        self._start_review([*self._open], is_allowed)

    def _start_review(self, chosen: Sequence[OpenRequest], admits: Callable[[OpenRequest], Any]) -> None:
        if chosen:
            task = asyncio.create_task(self._end_unless(chosen, admits), name=f"review of open requests of {self._cluster.name}")
            self._reviewing.add(task)
            task.add_done_callback(self._reviewing.discard)

    async def _end_unless(self, chosen: Iterable[OpenRequest], admits: Callable[[OpenRequest], Any]) -> None:
        for number, opened in enumerate(chosen, 1):
            if opened in self._open and not await admits(opened) and opened in self._open:
                attributes = opened.attributes
                log.info(
                    "open request ended",
                    cluster=self._cluster.name,
                    user=opened.caller.name,
                    verb=attributes.verb,
                    path=attributes.path,
                )
                opened.end()
            if number % _REVIEW_BATCH == 0:
                await asyncio.sleep(0)

    def _is_allowed(self, opened: OpenRequest) -> bool:
        rules = self._cluster.rules
        try:
            acting = rules.impersonate(opened.caller, opened.request)
        except ApiError:
            return False
        return rules.authorize(acting, opened.attributes).allowed

    async def _is_still_admitted(self, opened: OpenRequest) -> bool:
        """Whether the request would be admitted now, with its original credentials."""
        if opened.in_process:
            return is_current(self._cluster, opened.caller) and self._is_allowed(opened)
        try:
            caller = await self._cluster.rules.authenticate(opened.request, [])
        except ApiError:
            return False
        if (caller.name, caller.uid) != (opened.caller.name, opened.caller.uid):
            return False
        opened.caller = caller
        return self._is_allowed(opened)

    def _schedule_expiration(self, opened: OpenRequest) -> None:
        if opened.in_process:
            return
        now = self._cluster.clock()
        coming = [end for end in expiration_times(opened.request) if end >= now]
        if coming:
            opened.set_timer((coming[0] - now).total_seconds() + _EXPIRATION_MARGIN, self._on_expired)

    def _on_expired(self, opened: OpenRequest) -> None:
        """A credential has expired; another one may still be valid."""
        self._cluster.rules.invalidate_tokens()
        self._schedule_expiration(opened)
        self._start_review((opened,), self._is_still_admitted)


class Revocations:
    """Informs the open requests of all clusters about changes that may have revoked rights."""

    def __init__(self, store: Store, clusters: Mapping[str, Cluster]) -> None:
        self._store = store
        self._clusters = clusters
        self._subscriptions: list[Subscription] = []

    def start(self) -> None:
        subscribe = self._store.subscribe
        self._subscriptions = [subscribe(None, resource, None, self._on_rights, self._on_lost) for resource in RBAC_RESOURCES]
        self._subscriptions += [
            subscribe(None, resource, None, self._on_identities, self._on_lost) for resource in _BOUND_RESOURCES
        ]

    def stop(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()

    def _on_lost(self) -> None:
        self.stop()
        self.start()
        for cluster in self._clusters.values():
            cluster.part(Access).invalidate_tokens()
            cluster.part(OpenRequests).review_all()

    def _on_rights(self, events: Sequence[Event]) -> None:
        for event in events:
            cluster = self._clusters.get(event.cluster)
            if cluster is not None and event.previous is not None:
                cluster.part(OpenRequests).rights_changed()

    def _on_identities(self, events: Sequence[Event]) -> None:
        for event in events:
            cluster = self._clusters.get(event.cluster)
            is_affected = None if cluster is None or event.previous is None else _affected_callers(event)
            if cluster is not None and is_affected is not None:
                cluster.part(Access).invalidate_tokens()
                cluster.part(OpenRequests).identities_changed(is_affected)


def _affected_callers(event: Event) -> Callable[[UserInfo], bool] | None:
    """A predicate for the callers whose identity an event may have revoked; None if there are none."""
    namespace, _, name = event.entry.key.rpartition("/")
    accounts = f"{USER_PREFIX}{namespace}:"
    if event.resource == "/secrets":
        if event.entry.key.startswith(BOOTSTRAP_SECRETS):
            return lambda caller: caller.name.startswith(BOOTSTRAP_PREFIX)
        is_token = event.previous is not None and TOKEN_SECRET_MARKER in event.previous.value
        return (lambda caller: caller.name.startswith(accounts)) if is_token else None
    if not event.deleted:
        return None
    if event.resource == "/serviceaccounts":
        return lambda caller: caller.name == accounts + name
    if event.resource == "/pods":
        return lambda caller: caller.name.startswith(accounts) and caller.extra.get(f"{_EXTRA}pod-name") == (name,)
    return lambda caller: caller.extra.get(f"{_EXTRA}node-name") == (name,)
