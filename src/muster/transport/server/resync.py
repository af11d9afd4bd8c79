"""Answers to an agent that says what it has: what is new to it, what has changed, what is gone, and where it asks for it the end.

Only whoever asked is answered. Versions are compared by look-ups, so a request costs what it names plus what the cluster has,
however they are mixed; ids that come twice or that nobody knows do no harm. Any other version than the hub's is answered with the
hub's: a hub that was restored from a backup has lower ones, and is right all the same. The answers themselves are made when the
reader has room (`subscriber.py`), so the call that asks returns soon.

What is known here may be behind what another server has told the agent: a watch is late, or the hub's API is out of reach. Where
an agent has what is not known here, or has it in a later version, the hub is asked what it has now, once per request, and that
counts: an agent that were told of an older state would undo the newer one, or take down what is there.

That an object is gone is told only where it is known: it was seen to go here (the service's tombstone), or the agent itself says
the object's name, as ours do. An id without a name that nobody has seen is left alone, counted and logged: a deletion without a
name is taken by OCM's agents for another object. For the same reason nothing is answered before the service knows everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
from muster.transport.services.interfaces import Caller, Service

log = get_logger("muster.transport.server")

_END: Final = "resync "
"""Begins the place of an end in a stream's queue; no resource id has a blank."""


class Resync:
    def __init__(self, broker: Broker, *, clock: Clock = SYSTEM) -> None:
        self.unknown: dict[DataType, int] = dict.fromkeys(broker.services, 0)
        """Ids of which nobody could say whether there is or was such an object."""
        self._broker = broker
        self._clock = clock

    async def answer(self, service: Service, event: CloudEvent, caller: Caller, subscribers: list[Subscriber]) -> None:
        """Queue the answers to a request of the caller's cluster, whose streams are given; the service knows everything. Raises
        InvalidEvent and KubeError."""
        request = decode_resync_request(event)
        known = {one.resource_id: one for one in request.known}
        live = await self._live(service, caller, known)
        for current in service.versions(caller.cluster):
            has = known.pop(current.resource_id, None)
            if has is not None and has.version > current.version and live.get(current.resource_id, has.version) >= has.version:
                # We are behind: what has become of it will be told when that comes here.
                continue
            if has is None or current.deleting or not current.version or has.version != current.version:
                for subscriber in subscribers:
                    subscriber.ask(current.resource_id)
        gone = {resource_id: has for resource_id, has in known.items() if resource_id not in live}
        self._answer_gone(service, caller.cluster, gone, subscribers)
        if request.resync_id:
            self._mark_end(service, caller.cluster, request.resync_id, subscribers)

    async def _live(self, service: Service, caller: Caller, known: Mapping[str, KnownObject]) -> Mapping[str, int]:
        """What the hub has now, by id; empty where nothing the agent says makes us doubt what we know."""
        current = {one.resource_id: one.version for one in service.versions(caller.cluster)}
        for resource_id, has in known.items():
            if resource_id in current:
                doubtful = has.version > current[resource_id]
            else:
                doubtful = bool(resource_id and has.name) and service.tombstone(caller.cluster, resource_id) is None
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
                subscriber.ask(resource_id, make)
        if unknown:
            self.unknown[service.row.data_type] += unknown
            log.info("resync names objects that nobody knows", cluster=cluster, data_type=str(service.row.data_type), ids=unknown)

    def _gone(self, service: Service, cluster: str, has: KnownObject) -> Make | None:
        row, broker = service.row, self._broker
        seen = service.tombstone(cluster, has.resource_id)
        if seen is not None:
            return lambda _: broker.encoded(seen, row.data_type)
        if not has.name or not has.resource_id:
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
