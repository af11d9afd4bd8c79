"""Deletes each ManagedServiceAccount with `ttlSecondsAfterCreation` once that time has passed.

Its agent then deletes the ServiceAccount on the cluster, which invalidates every token of it. Each object is requeued for its own
time of expiry, so the number of other objects delays nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.runtime.client import NotFound
from muster.runtime.controller import ControllerContext, Stop

log = get_logger("muster.accounts.hub")

NAME: Final = "ephemeral-accounts"
MAX_REQUEUE_DELAY: Final = 86400.0
"""Seconds; a clock that was set meanwhile is noticed after that."""


class AccountExpiry:
    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._accounts = context.informers.of(ManagedServiceAccount)
        self._controller = context.controller(NAME, self.reconcile)
        self._controller.watch(self._accounts, lambda one: [ObjectKey(one.metadata.namespace, one.metadata.name)])

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: ObjectKey) -> float | None:
        account = self._accounts.cache.get(key)
        if account is None or account.metadata.deletion_timestamp or account.spec is None:
            return None
        seconds = account.spec.ttl_seconds_after_creation
        if seconds is None:
            return None
        remaining = self._until(account.metadata.creation_timestamp, seconds)
        if remaining > 0:
            return min(remaining, MAX_REQUEUE_DELAY)
        try:
            await self._client.delete(ManagedServiceAccount, key.name, key.namespace, uid=account.metadata.uid)
        except NotFound:
            return None
        log.info("expired account deleted", cluster=key.namespace, account=key.name)
        return None

    def _until(self, created: str, seconds: int) -> float:
        try:
            return (parse_time(created) + timedelta(seconds=seconds) - self._clock.now()).total_seconds()
        except (GoError, OverflowError) as error:
            raise Stop(f"metadata.creationTimestamp {created!r} and {seconds} s do not add up to a time: {error}") from None
