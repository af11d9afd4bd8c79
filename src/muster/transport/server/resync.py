"""Answers resync requests: objects that are new to the agent, changed or deleted, and the end marker if it is requested.

Answers go to the requesting agent only. Versions are compared by lookups, so the cost is linear in the ids of the request plus the
objects of the cluster; duplicate and unknown ids are harmless. Any version that differs from the hub's is answered with the hub's:
after a restore from a backup it is lower, and correct all the same. The answers are encoded when the reader has room
(`subscriber.py`), so the call returns soon.

This server's cache may be behind what another server has sent to the agent: its watch is late, or the hub's API is unreachable. If
the agent has an object that is not cached, or a later version of it, or omits its version because of a doubt, the hub's current
state is read, once per request, and used: an agent that received an older state would revert the newer one, or remove what exists.

An agent that has just started may request what it reported before (`with_status`): then the statuses are read from the hub, and
every object with one is answered with it. The agent must not take a work that is too large to be sent for a deleted one, since it
would remove what the work has applied: agents that support it get the information that the work exists.

An object is reported as deleted only if that is known: its deletion was seen here (the service's tombstone), or the agent itself
sent the object's name, as ours do. An unknown id without a name is ignored, counted and logged: OCM's agents take a deletion
without a name for one of another object. For the same reason nothing is answered before the service is synced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.transport.codecs.resync import (
    KnownObject,
    Tombstone,
    decode_resync_request,
    encode_resync_end,
    encode_tombstone,
)
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import Belongs
from muster.transport.contract.types import Action, DataType
from muster.transport.server.broker import Broker
from muster.transport.server.subscriber import Make, Subscriber
from muster.transport.services.interfaces import Caller, ObjectVersion, Service

log = get_logger("muster.transport.server")

_END: Final = "resync "
"""The prefix of an end marker's key in a stream's queue; no resource id contains a blank."""


class Resync:
    def __init__(self, broker: Broker, *, clock: Clock = SYSTEM) -> None:
        self.unknown: dict[DataType, int] = dict.fromkeys(broker.services, 0)
        """The number of unknown ids without a tombstone."""
        self._broker = broker
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By cluster: held while statuses are read from the hub."""

    async def answer(self, service: Service, event: CloudEvent, caller: Caller, subscribers: list[Subscriber]) -> None:
        """Queue the answers to a request of the caller's cluster, for these streams; the service must be synced. Raises
        InvalidEvent and KubeError."""
        request = decode_resync_request(event)
        # An object that the agent has created and not received since has no id yet: its event will come.
        known = {one.resource_id: one for one in request.known if one.resource_id}
        statuses = await self._statuses(service, caller) if request.with_status and service.row.status_apart else {}
        # Only our agents, which send a resync id, support withheld works.
        ours = bool(request.resync_id)
        make = self._broker.maker(service, statuses=statuses, withhold=ours) if service.row.status_apart else None
        live = await self._live(service, caller, known)
        for current in service.versions(caller.cluster):
            has = known.pop(current.resource_id, None)
            if has is not None and _is_behind(current, has, live):
                # Its change will be sent when it arrives here.
                continue
            if make is not None and current.resource_id in statuses:
                for subscriber in subscribers:
                    subscriber.answer(current.resource_id, make)
            elif has is None or current.deleting or not current.version or has.version != current.version:
                for subscriber in subscribers:
                    subscriber.enqueue(current.resource_id, make)
        gone = {resource_id: has for resource_id, has in known.items() if resource_id not in live}
        self._answer_gone(service, caller.cluster, gone, subscribers)
        if request.resync_id:
            self._mark_end(service, caller.cluster, request.resync_id, subscribers)

    async def _statuses(self, service: Service, caller: Caller) -> Mapping[str, bytes]:
        """One request at a time per cluster: the result is as large as all statuses that its agent has reported."""
        async with self._locks.setdefault(caller.cluster, asyncio.Lock()):
            return await service.live_statuses(caller.cluster, caller)

    async def _live(self, service: Service, caller: Caller, known: Mapping[str, KnownObject]) -> Mapping[str, int]:
        """The hub's current versions, by id; empty if the agent's request gives no reason to doubt the cache."""
        current = {version.resource_id: version.version for version in service.versions(caller.cluster)}
        for resource_id, has in known.items():
            if resource_id in current:
                doubtful = has.version > current[resource_id] or _is_doubted(has)
            else:
                doubtful = bool(has.name) and service.tombstone(caller.cluster, resource_id) is None
            if doubtful:
                return {one.resource_id: one.version for one in await service.live_versions(caller.cluster, caller)}
        return {}

    def _answer_gone(self, service: Service, cluster: str, known: dict[str, KnownObject], subscribers: list[Subscriber]) -> None:
        unknown = 0
        for resource_id, has in known.items():
            make = self._gone(service, cluster, has)
            if make is None:
                unknown += 1
                continue
            for subscriber in subscribers:
                subscriber.enqueue(resource_id, make)
        if unknown:
            self.unknown[service.row.data_type] += unknown
            log.info("resync names unknown objects", cluster=cluster, data_type=str(service.row.data_type), ids=unknown)

    def _gone(self, service: Service, cluster: str, has: KnownObject) -> Make | None:
        row, broker = service.row, self._broker
        seen = service.tombstone(cluster, has.resource_id)
        if seen is not None:
            return lambda _: broker.encoded(seen, row.data_type)
        if not has.name:
            return None
        namespace = cluster if row.belongs is Belongs.NAMESPACE else ""
        gone = Tombstone(cluster=cluster, namespace=namespace, name=has.name, resource_id=has.resource_id, version=has.version)
        return lambda _: broker.encoded(encode_tombstone(row, gone, Action.RESYNC_RESPONSE, now=self._clock.now()), row.data_type)

    def _mark_end(self, service: Service, cluster: str, resync_id: str, subscribers: list[Subscriber]) -> None:
        data_type = service.row.data_type
        message = self._broker.encoded(encode_resync_end(data_type, cluster, resync_id, now=self._clock.now()), data_type)
        assert message is not None, "an end is small"
        for subscriber in subscribers:
            subscriber.offer(f"{_END}{resync_id}", message, keep=True)


def _is_doubted(has: KnownObject) -> bool:
    """Whether one of our agents, which send names, has received a version older than it had, and requests the hub's. Other agents
    send no version for objects without one."""
    return bool(has.name) and not has.version


def _is_behind(current: ObjectVersion, has: KnownObject, live: Mapping[str, int]) -> bool:
    """Whether the cached version is older than the hub's, if that has the object at all, so that the agent might take it for the
    latest."""
    hubs = live.get(current.resource_id)
    if _is_doubted(has):
        return hubs is None or hubs > current.version
    return has.version > current.version and (hubs is None or hubs >= has.version)
