"""A row's objects as an informer follows them."""

from __future__ import annotations

import random as chance

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import KubeClient
from muster.transport.contract.rows import Row
from muster.transport.services.objects import SourceHandler
from muster.transport.services.reduction import reduction_of


class InformedObjects:
    """An ObjectSource."""

    def __init__(self, client: KubeClient, row: Row, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self.informer: Informer[Snapshot] = Informer(
            client, row.resource, label_selector=row.selector, reduce=reduction_of(row), clock=clock, random=random
        )

    @property
    def synced(self) -> bool:
        return self.informer.has_synced

    def on_change(self, handler: SourceHandler) -> None:
        self.informer.on_change(handler)

    async def run(self) -> None:
        await self.informer.run()
