"""The service of one row: objects of a source as events, and the writes that agents request.

It is independent of the storage, which is behind `ObjectSource` and a client for writes. Objects of the initial state are no
changes: handlers are called for changes after it, and resyncs must wait for it (`synced`).
"""

from __future__ import annotations

import asyncio
import builtins
import random as chance
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from muster.api.cluster.write_rules import ClusterWriteRules
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.runtime.auth import Authorizer
from muster.runtime.cache import Cache, Snapshot
from muster.runtime.client import KubeClient, NotFound, StatusError
from muster.transport.codecs.resync import encode_tombstone
from muster.transport.contract.event import MAX_EVENT, CloudEvent, InvalidEvent
from muster.transport.contract.rows import Row
from muster.transport.contract.types import Action
from muster.transport.services.changes import ObjectChange, encode
from muster.transport.services.delivery import DeliveryConditions
from muster.transport.services.interfaces import Caller, EventHandler, ObjectVersion
from muster.transport.services.objects import KeptObject, KeptObjects, ObjectSource, selection_of
from muster.transport.services.reported import read_statuses
from muster.transport.services.tombstones import Tombstones
from muster.transport.services.write_cache import WriteCache
from muster.transport.services.writes.payload import forbidden
from muster.transport.services.writes.request import WriteRequest
from muster.transport.services.writes.table import VERBS

log = get_logger("muster.transport.services")

ClientOf = Callable[[Caller], KubeClient]
"""The client for writes of a caller."""
_RESYNC: Final = Action.RESYNC_RESPONSE


class ObjectService:
    def __init__(
        self,
        row: Row,
        source: ObjectSource,
        client_of: ClientOf,
        authorizer: Authorizer,
        *,
        rules: ClusterWriteRules | None = None,
        tombstones: Tombstones | None = None,
        own_client: KubeClient | None = None,
        max_event: int = MAX_EVENT,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        """`own_client` is for the server's own writes: the condition of works that cannot be sent because they exceed `max_event`
        bytes."""
        self._row = row
        self._source = source
        self._client_of = client_of
        self._authorizer = authorizer
        self._rules = rules or ClusterWriteRules()
        self._clock = clock
        self._random = random
        self._objects = KeptObjects()
        self._answers = WriteCache(clock=clock)
        self._tombstones = Tombstones(row, clock=clock) if tombstones is None else tombstones
        self._handlers: list[EventHandler] = []
        self._delivery: DeliveryConditions | None = None
        if own_client is not None and row.status_apart:
            self._delivery = DeliveryConditions(row, self._objects, own_client, max_event, clock=clock, random=random)
        source.on_change(self._on_change)

    @property
    def row(self) -> Row:
        return self._row

    @property
    def synced(self) -> bool:
        return self._source.synced

    @property
    def served(self) -> bool:
        return self._source.served

    def get(self, resource_id: str) -> CloudEvent:
        kept = self._objects.get(resource_id)
        if kept is None:
            details = {"name": resource_id, "group": self._row.resource.group, "kind": self._row.resource.plural}
            raise NotFound(404, "NotFound", f"no {self._row.resource} has uid {resource_id!r}", details)
        return self._event(kept)

    def list(self, cluster: str) -> list[CloudEvent]:
        events = []
        for kept in self._objects.of_cluster(cluster):
            try:
                events.append(self._event(kept))
            except InvalidEvent as error:
                # Other objects are not affected.
                log.error("cannot send object", resource=str(self._row.resource), key=str(kept.snapshot.key), error=str(error))
        return events

    def versions(self, cluster: str) -> Iterable[ObjectVersion]:
        row = self._row
        return [ObjectVersion(kept.uid, kept.version(row), kept.deleting) for kept in self._objects.of_cluster(cluster)]

    async def live_versions(self, cluster: str, caller: Caller) -> builtins.list[ObjectVersion]:
        row = self._row
        versions: builtins.list[ObjectVersion] = []
        if row.sends:
            reader: Cache[Snapshot] = Cache(row.resource)
            async for page in self._client_of(caller).pages(row.resource, **selection_of(row, cluster)):
                for raw in page.items:
                    kept = KeptObject(row, reader.read(raw))
                    versions.append(ObjectVersion(kept.uid, kept.version(row), kept.deleting))
        return versions

    async def live_statuses(self, cluster: str, caller: Caller) -> Mapping[str, bytes]:
        if not self._row.status_apart:
            return {}
        pages = self._client_of(caller).pages(self._row.resource, **selection_of(self._row, cluster))
        return await read_statuses((page.items async for page in pages), cluster)

    def tombstone(self, cluster: str, resource_id: str) -> CloudEvent | None:
        gone = self._tombstones.get(cluster, resource_id)
        return None if gone is None else encode_tombstone(self._row, gone, _RESYNC, now=self._clock.now())

    async def handle_status_update(self, event: CloudEvent, caller: Caller) -> CloudEvent | None:
        event_type = event.event_type
        requested = (event_type.subresource, event_type.action)
        verb = VERBS.get((self._row.data_type, *requested)) if requested in self._row.accepts else None
        if verb is None or event_type.data_type != self._row.data_type:
            message = f"{event_type} is nothing that agents can ask for; of {self._row.data_type} they can ask for " + ", ".join(
                sorted(f"{subresource}.{action}" for subresource, action in self._row.accepts)
            )
            raise StatusError(405, "MethodNotAllowed", message)
        if not caller.cluster or event.cluster != caller.cluster:
            why = f"the event is for cluster {event.cluster!r}, and the caller speaks for {caller.cluster!r}"
            raise forbidden(self._row, event.cluster, why)
        return await verb(
            WriteRequest(
                self._row,
                event,
                caller,
                self._client_of(caller),
                self._authorizer,
                self._rules,
                self._objects,
                self._answers,
                self._clock,
                self._random,
            )
        )

    def register_handler(self, handler: EventHandler) -> None:
        self._handlers.append(handler)

    def undeliverable(self, resource_id: str) -> None:
        if self._delivery is not None:
            self._delivery.undeliverable(resource_id)

    async def run(self) -> None:
        if self._delivery is None:
            await self._source.run()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._source.run())
            tasks.create_task(self._delivery.run())

    def _event(self, kept: KeptObject) -> CloudEvent:
        return encode(self._row, kept.raw, _RESYNC, self._clock.now())

    def _on_change(self, old: Snapshot | None, new: Snapshot | None) -> None:
        """An object with another uid, or of another cluster now, counts as deleted and added."""
        after = None if new is None else KeptObject(self._row, new)
        before = None if old is None else self._objects.get(old.uid)
        if self._delivery is not None and after is not None:
            self._delivery.changed(after)
        if before is not None and after is not None and (before.uid, before.cluster) == (after.uid, after.cluster):
            self._objects.put(after)
            if after.differs(before):
                self._notify(after, Action.UPDATE)
            return
        if before is not None:
            self._objects.remove(before.uid)
            self._tombstones.add(before)
            self._notify(before, Action.DELETE)
        if after is not None and after.cluster:
            self._tombstones.forget(after.uid)
            self._objects.put(after)
            self._notify(after, Action.CREATE)

    def _notify(self, kept: KeptObject, action: Action) -> None:
        if self._source.synced:
            change = ObjectChange(self._row, kept, action, self._clock)
            for handler in self._handlers:
                handler(change)
