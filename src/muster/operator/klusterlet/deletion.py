"""The deletion of a Klusterlet: the order in which its objects are removed, and what blocks it.

Its finalizer covers the objects on this cluster, the hosted finalizer those on another managed cluster; each is removed after them.
If the managed cluster is unreachable, the removal waits for it. The time since when is an annotation of the Klusterlet, so that it
survives a restart. After `removal_timeout`, the objects on the managed cluster are left there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from muster.api.operator.v1 import Klusterlet
from muster.api.resource import ObjectMeta
from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.logs import get_logger
from muster.operator.klusterlet.plan import LONGEST_NAME, KlusterletPlan
from muster.operator.klusterlet.removal import Removal
from muster.operator.names import EVICTION_ANNOTATION, KLUSTERLET_HOSTED_FINALIZER
from muster.operator.reconciler import REMOVAL_INTERVAL
from muster.operator.target_cluster import TargetCluster
from muster.runtime.client import Forbidden, KubeconfigError, Unauthorized, Unreachable, patch_object
from muster.runtime.controller import without_finalizer

log = get_logger("muster.operator.klusterlet")

WHILE_AWAY: Final = 10.0


@dataclass
class KlusterletDeletion:
    """One reconcile of the deletion. `managed` returns the managed cluster of a hosted Klusterlet and raises KubeconfigError;
    `last`: see Removal."""

    plan: KlusterletPlan
    here: TargetCluster
    managed: Callable[[], Awaitable[TargetCluster]]
    last: bool
    clock: Clock
    removal_timeout: timedelta

    def __post_init__(self) -> None:
        self.obj = self.plan.klusterlet
        self._removal = Removal(self.plan, self.here, self.last)

    async def step(self) -> tuple[list[str], float]:
        """What is left, and when to reconcile again. Raises KubeError."""
        if len(self.plan.name) > LONGEST_NAME:
            # The spec was refused from the start: nothing was created.
            return [], REMOVAL_INTERVAL
        if left := await self._removal.agents():
            return list(map(str, left)), REMOVAL_INTERVAL
        if not self.plan.hosted:
            left = await self._removal.rights(self.here)
        elif KLUSTERLET_HOSTED_FINALIZER in self.obj.metadata.finalizers and (held := await self._remove_from_managed()):
            return held
        return list(map(str, left or await self._removal.rest())), REMOVAL_INTERVAL

    async def _remove_from_managed(self) -> tuple[list[str], float] | None:
        """What is left on the managed cluster; None if nothing is, or if it must be left there."""
        try:
            left = await self._removal.rights(await self.managed())
        except (Unreachable, Unauthorized, Forbidden, KubeconfigError) as error:
            if not await self._lost():
                return [f"managed cluster: {error}"], WHILE_AWAY
            log.warning("managed cluster is away: its part is left there", klusterlet=self.plan.name, error=str(error))
        else:
            await self._annotate("")
            if left:
                return list(map(str, left)), REMOVAL_INTERVAL
        await self._let_go(KLUSTERLET_HOSTED_FINALIZER)
        return None

    async def _lost(self) -> bool:
        """Whether the managed cluster has been unreachable for too long."""
        since = _away_since(self.obj)
        if since is None:
            await self._annotate(format_time(self.clock.now()))
            return False
        return self.clock.now() - since >= self.removal_timeout

    async def _annotate(self, since: str) -> None:
        others = {key: value for key, value in self.obj.metadata.annotations.items() if key != EVICTION_ANNOTATION}
        annotations = {**others, EVICTION_ANNOTATION: since} if since else others
        await self._write(msgspec.structs.replace(self.obj.metadata, annotations=annotations))

    async def _let_go(self, finalizer: str) -> None:
        await self._write(without_finalizer(self.obj, finalizer).metadata)

    async def _write(self, metadata: ObjectMeta) -> None:
        after = msgspec.structs.replace(self.obj, metadata=metadata)
        answer = await patch_object(self.here.client, self.obj, after)
        if answer is not None:
            self.obj = Klusterlet.decode(answer)


def _away_since(klusterlet: Klusterlet) -> datetime | None:
    try:
        return parse_time(klusterlet.metadata.annotations.get(EVICTION_ANNOTATION, ""))
    except ValueError:
        return None
