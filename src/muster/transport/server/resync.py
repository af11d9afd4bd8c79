"""Answers to an agent that says what it has: what is new to it, what has changed, what is gone, and where it asks for it the end.

Only whoever asked is answered. Versions are compared by look-ups, so a request costs what it names plus what the cluster has,
however they are mixed; ids that come twice or that nobody knows do no harm. Any other version than the hub's is answered with the
hub's: a hub that was restored from a backup has lower ones, and is right all the same. The answers themselves are made when the
reader has room (`subscriber.py`), so the call that asks returns soon.

What is known here may be behind what another server has told the agent: a watch is late, or the hub's API is out of reach. Where
an agent has what is not known here, or has it in a later version, or does not say which version it has because it doubts it, the
hub is asked what it has now, once per request, and that counts: an agent that were told of an older state would undo the newer one,
or take down what is there.

An agent that has just started may ask for what it reported before (`with_status`): then the hub is asked for that, and every object
of which there is any is answered with it. It must not take a work for gone that is too large to be sent, since it would remove what
the work has brought: that there is such a work is told to whoever understands it.

That an object is gone is told only where it is known: it was seen to go here (the service's tombstone), or the agent itself says
the object's name, as ours do. An id without a name that nobody has seen is left alone, counted and logged: a deletion without a
name is taken by OCM's agents for another object. For the same reason nothing is answered before the service knows everything.
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
"""Begins the place of an end in a stream's queue; no resource id has a blank."""


class Resync:
    def __init__(self, broker: Broker, *, clock: Clock = SYSTEM) -> None:
        self.unknown: dict[DataType, int] = dict.fromkeys(broker.services, 0)
        """Ids of which nobody could say whether there is or was such an object."""
        self._broker = broker
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By cluster: held while the hub is asked for statuses."""

    async def answer(self, service: Service, event: CloudEvent, caller: Caller, subscribers: list[Subscriber]) -> None:
        """Queue the answers to a request of the caller's cluster, whose streams are given; the service knows everything. Raises
        InvalidEvent and KubeError."""
        request = decode_resync_request(event)
        # What an agent has made and not heard of again has no id yet: it will hear.
        known = {one.resource_id: one for one in request.known if one.resource_id}
        statuses = await self._statuses(service, caller) if request.with_status and service.row.status_apart else {}
        # That a work is withheld only agents of ours can read, which ask with an id.
        ours = bool(request.resync_id)
        make = self._broker.maker(service, statuses=statuses, withhold=ours) if service.row.status_apart else None
        live = await self._live(service, caller, known)
        for current in service.versions(caller.cluster):
            has = known.pop(current.resource_id, None)
            if has is not None and _is_behind(current, has, live):
                # What has become of it will be told when that comes here.
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
        """One question at a time for a cluster: the answers to it are as large as all that its agent has reported."""
        async with self._locks.setdefault(caller.cluster, asyncio.Lock()):
            return await service.live_statuses(caller.cluster, caller)

    async def _live(self, service: Service, caller: Caller, known: Mapping[str, KnownObject]) -> Mapping[str, int]:
        """What the hub has now, by id; empty where nothing the agent says makes us doubt what we know."""
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
    """Whether an agent of ours, which says names, has heard of an older version than it had and asks whether that is the hub's.
    Others say no version of what has none."""
    return bool(has.name) and not has.version


def _is_behind(current: ObjectVersion, has: KnownObject, live: Mapping[str, int]) -> bool:
    """Whether what is known here is older than what the hub has, if it has the object at all, and an agent might take it for the
    newest."""
    hubs = live.get(current.resource_id)
    if _is_doubted(has):
        return hubs is None or hubs > current.version
    return has.version > current.version and (hubs is None or hubs >= has.version)
