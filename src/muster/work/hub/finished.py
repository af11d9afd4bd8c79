"""Deletes completed works after their `ttlSecondsAfterFinished`.

A work is completed when `Complete` is True for its current generation. The time counts from that condition's transition. Works of
replica sets are deleted by their controller.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from muster.api.meta import condition_of
from muster.api.work.v1 import ManifestWork
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.runtime.client import Conflict, NotFound
from muster.runtime.controller import ControllerContext
from muster.work.hub.options import FINISHED_WORK_CONTROLLER
from muster.work.kinds import MANIFEST_WORKS
from muster.work.names import COMPLETE, REPLICA_SET_LABEL

log = get_logger("muster.work.hub.finished")

_OTHERS: Final = f"!{REPLICA_SET_LABEL}"


class FinishedWorks:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._works = context.informers.of(ManifestWork, label_selector=_OTHERS)
        self._controller = context.controller(FINISHED_WORK_CONTROLLER, self.reconcile)
        self._controller.watch(self._works, lambda work: [ObjectKey(work.metadata.namespace, work.metadata.name)])

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: ObjectKey) -> float | None:
        work = self._works.cache.get(key)
        if work is None or work.metadata.deletion_timestamp or (stays := staying(work)) is None:
            return None
        now = self._context.clock.now()
        try:
            # Agents write this time; it cannot be in the future.
            since = min(parse_time(stays[0]), now)
        except ValueError:
            return None
        left = (since + stays[1] - now).total_seconds()
        if left > 0:
            return left
        metadata = work.metadata
        try:
            await self._context.client.delete(
                MANIFEST_WORKS, key.name, key.namespace, uid=metadata.uid, resource_version=metadata.resource_version
            )
        except (NotFound, Conflict):
            # Deleted, or written since: then its event enqueues it again.
            return None
        log.info("deleted a finished work", work=str(key))
        return None


def staying(work: ManifestWork) -> tuple[str, timedelta] | None:
    """Since when a completed work stays, and for how long; None if it is not completed or has no TTL."""
    seconds = work.spec.delete_option.ttl_seconds_after_finished if work.spec.delete_option else None
    complete = condition_of(work.status.conditions, COMPLETE)
    if seconds is None or complete is None or complete.status != "True":
        return None
    if complete.observed_generation not in (0, work.metadata.generation) or not complete.last_transition_time:
        return None
    return complete.last_transition_time, timedelta(seconds=min(max(seconds, 0), 10**9))
