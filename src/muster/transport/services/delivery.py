"""The condition `Delivered` of works that are too large to be sent to their agent, where their owner will look for it.

It is False while a subscribed work is larger than a message may be. That is decided for the hub's current version of the work, and
written for that version: after a change in between it is decided again. The condition is removed when another generation fits,
whoever has written the condition, and when the agent has reported on the current generation, which it must have received. So a
restarted server continues where the former one ended, and servers with different limits do not revert each other.

Only the server writes the condition: an agent cannot report it (`writes/works.py`). Works that fit cost nothing: only works that
could not be sent to a subscriber, and those with the condition, are checked.
"""

from __future__ import annotations

import random as chance
from typing import Any, Final

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.golang.timestamps import format_time
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.controller import Controller
from muster.transport.contract.event import InvalidEvent
from muster.transport.contract.rows import Row
from muster.transport.contract.types import Action
from muster.transport.contract.wire import encode_event
from muster.transport.services.changes import encode
from muster.transport.services.objects import KeptObject, KeptObjects
from muster.transport.services.reduction import DELIVERED
from muster.transport.services.writes.payload import identity_of

TOO_LARGE: Final = "MessageTooLarge"
APPLIED: Final = "Applied"
"""The condition of the agent with the generation that it has."""


class DeliveryConditions:
    """`client` has the server's own credential; `max_event` is the size in bytes of the largest event that is sent."""

    def __init__(
        self,
        row: Row,
        objects: KeptObjects,
        client: KubeClient,
        max_event: int,
        *,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._row = row
        self._objects = objects
        self._client = client
        self._max_event = max_event
        self._reported: set[str] = set()
        """Uids of works with the condition from this server."""
        self._clock = clock
        self._works: Controller[str] = Controller(
            "delivery-conditions", self._reconcile, workers=1, metrics=metrics, clock=clock, random=random
        )

    def undeliverable(self, resource_id: str) -> None:
        """It has a subscriber, and cannot be sent."""
        kept = self._objects.get(resource_id)
        if kept is not None and kept.undelivered != kept.generation:
            self._works.enqueue(resource_id)

    def changed(self, kept: KeptObject) -> None:
        """The current state of an object."""
        if kept.undelivered is not None:
            self._works.enqueue(kept.uid)

    async def run(self) -> None:
        await self._works.run()

    async def _reconcile(self, uid: str) -> None:
        """By uid. Raises KubeError, and Conflict if the work has changed in between."""
        kept = self._objects.get(uid)
        if kept is None:
            self._reported.discard(uid)
            return
        name, namespace = kept.snapshot.name, kept.snapshot.namespace
        try:
            work = await self._client.get(self._row.resource, name, namespace)
            metadata = work["metadata"]
            if metadata["uid"] != uid:
                return
            conditions = (work.get("status") or {}).get("conditions") or []
            wanted = self._wanted(work, conditions)
            if wanted != conditions:
                resource, status = self._row.resource, {**(work.get("status") or {}), "conditions": wanted}
                kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                await self._client.update(resource, {**kind, "metadata": identity_of(work), "status": status}, subresource="status")
                if any(one.get("type") == DELIVERED for one in wanted):
                    self._reported.add(uid)
                else:
                    self._reported.discard(uid)
        except NotFound:
            # It was deleted in between.
            return

    def _wanted(self, work: Object, conditions: list[Any]) -> list[Any]:
        """The desired conditions of the work."""
        generation = work["metadata"].get("generation", 0)
        others = [one for one in conditions if one.get("type") != DELIVERED]
        there: Object = next((one for one in conditions if one.get("type") == DELIVERED), {})
        if any(one.get("type") == APPLIED and one.get("observedGeneration") == generation for one in others):
            return others
        size = self._size(work)
        if size <= self._max_event:
            reported_by_another = there.get("observedGeneration") == generation and work["metadata"]["uid"] not in self._reported
            return conditions if reported_by_another else others
        message = f"The work takes {size} bytes as a message; agents receive at most {self._max_event}: split it into several works"
        condition = {
            "type": DELIVERED,
            "status": "False",
            "reason": TOO_LARGE,
            "message": message,
            "lastTransitionTime": there.get("lastTransitionTime") or format_time(self._clock.now()),
            "observedGeneration": generation,
        }
        return conditions if condition == there else [*others, condition]

    def _size(self, work: Object) -> int:
        """The size of the work's message; 0 if it cannot be encoded, which is another error."""
        try:
            return len(encode_event(encode(self._row, work, Action.UPDATE, self._clock.now())))
        except InvalidEvent:
            return 0
