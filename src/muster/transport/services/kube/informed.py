"""A row's objects from an informer, once the hub serves their kind.

A hub need not serve all kinds: one of an older OCM has no v1beta1 addons. The informer retries, with pauses of up to half a minute,
and starts when the kind is served.
"""

from __future__ import annotations

import random as chance

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import KubeClient, KubeError, NotFound
from muster.transport.contract.rows import Row
from muster.transport.services.objects import SourceHandler
from muster.transport.services.reduction import reduction_of

log = get_logger("muster.transport.services")


class InformedObjects:
    """An ObjectSource."""

    def __init__(self, client: KubeClient, row: Row, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self.informer = _RowInformer(
            client, row.resource, label_selector=row.selector, reduce=reduction_of(row), clock=clock, random=random
        )

    @property
    def synced(self) -> bool:
        return self.informer.has_synced

    @property
    def served(self) -> bool:
        return self.informer.has_synced or not self.informer.missing

    def on_change(self, handler: SourceHandler) -> None:
        self.informer.on_change(handler)

    async def run(self) -> None:
        await self.informer.run()


class _RowInformer(Informer[Snapshot]):
    missing = False
    """Whether the hub did not serve the kind at the last attempt."""

    def should_retry(self, error: KubeError) -> bool:
        missing = isinstance(error, NotFound)
        if missing and not self.missing:
            log.warning("hub does not serve a kind; requests for it are refused until it does", resource=str(self.resource))
        self.missing = missing
        return True
