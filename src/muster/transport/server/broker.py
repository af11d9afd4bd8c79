"""Distributes changes to subscribers, by cluster and data type; each is encoded once, if there are any subscribers.

Services report changes as they happen; nothing here waits for a reader (`subscriber.py`). Messages of one iteration of the event
loop are sent at its end, for all streams. Heartbeats are sent to all streams by one timer, a few hundred per iteration.

An object that cannot be sent affects no other. If it is larger than agents can receive, it would end the stream, and again after
every resync: it is left out, logged and counted, and its service is notified; an object that cannot be encoded is left out too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeVar
from uuid import uuid4

from muster.http.message import Connection
from muster.kube.rbac import Subject, subjects_of
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.logs import get_logger
from muster.runtime.client import NotFound
from muster.transport.codecs.works import with_status, withheld
from muster.transport.contract.event import MAX_EVENT, RESOURCE_ID, CloudEvent, InvalidEvent, heartbeat
from muster.transport.contract.rows import Row
from muster.transport.contract.types import Action, DataType
from muster.transport.contract.wire import encode_event
from muster.transport.rpc.interfaces import Call, ServerStream
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.authentication import Identity
from muster.transport.server.subscriber import Make, Subscriber, Visible
from muster.transport.services.interfaces import ResourceChange, Service

log = get_logger("muster.transport.server")

HEARTBEAT_INTERVAL: Final = 10.0
BEATS_PER_TURN: Final = 500
K = TypeVar("K")
V = TypeVar("V")
_NO_SUBSCRIBERS: Final[frozenset[Subscriber]] = frozenset()
_NO_STATUSES: Final[Mapping[str, bytes]] = {}


class Broker:
    def __init__(
        self,
        services: Iterable[Service],
        *,
        heartbeat: float | None = HEARTBEAT_INTERVAL,
        max_event: int = MAX_EVENT,
        clock: Clock = SYSTEM,
    ) -> None:
        """`heartbeat`: seconds between heartbeats; None for none. `max_event`: bytes of the largest event that is sent."""
        self.services = {service.row.data_type: service for service in services}
        self.oversized: dict[DataType, int] = dict.fromkeys(self.services, 0)
        """The number of events that were too large."""
        self.unfit: dict[DataType, int] = dict.fromkeys(self.services, 0)
        """The number of objects that could not be encoded."""
        self._heartbeat = heartbeat
        self._max_event = max_event
        self._clock = clock
        self._listeners: dict[DataType, dict[str, set[Subscriber]]] = {data_type: {} for data_type in self.services}
        """By data type and cluster."""
        self._by_connection: dict[Connection, set[Subscriber]] = {}
        self._by_user: dict[UserInfo, set[Subscriber]] = {}
        self._users: dict[Subject, set[UserInfo]] = {}
        self._dirty: list[Subscriber] = []
        self._stopping = False
        for service in self.services.values():
            service.register_handler(self._publish_changes_of(service))

    def __len__(self) -> int:
        return sum(map(len, self._by_connection.values()))

    def __iter__(self) -> Iterator[Subscriber]:
        for subscribers in list(self._by_connection.values()):
            yield from list(subscribers)

    def counts(self) -> dict[tuple[str, DataType], int]:
        """The number of streams by cluster and data type."""
        return {
            (cluster, data_type): len(subscribers)
            for data_type, clusters in self._listeners.items()
            for cluster, subscribers in clusters.items()
        }

    @property
    def synced(self) -> bool:
        """Whether all kinds that the hub serves are synced."""
        return all(service.synced or not service.served for service in self.services.values())

    # Subscribing

    def subscribe(
        self, call: Call, who: Identity, row: Row, cluster: str, stream: ServerStream, *, visible: Visible | None = None
    ) -> Subscriber:
        """The stream gets every change from now on. The head is sent in the same iteration of the event loop, so that its receiver
        can rely on that. The caller serves the subscriber, and unsubscribes it. Raises RpcError if the server is stopping."""
        if self._stopping:
            raise RpcError(Code.UNAVAILABLE, "the server is stopping; connect again")
        service = self.services[row.data_type]
        subscriber = Subscriber(
            str(uuid4()), call, who, row, cluster, stream, make=self.maker(service, visible), dirty=self._mark, visible=visible
        )
        self._listeners[row.data_type].setdefault(cluster, set()).add(subscriber)
        self._by_connection.setdefault(call.connection, set()).add(subscriber)
        self._by_user.setdefault(who.user, set()).add(subscriber)
        for subject in subjects_of(who.user):
            self._users.setdefault(subject, set()).add(who.user)
        stream.start({"subscription-id": subscriber.id})
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        user = subscriber.who.user
        _remove(self._listeners[subscriber.row.data_type], subscriber.cluster, subscriber)
        _remove(self._by_connection, subscriber.call.connection, subscriber)
        _remove(self._by_user, user, subscriber)
        if user not in self._by_user:
            for subject in subjects_of(user):
                _remove(self._users, subject, user)
        subscriber.end(RpcError(Code.CANCELLED))

    def on_connection(self, connection: Connection) -> int:
        """The number of streams on a connection."""
        return len(self._by_connection.get(connection, ()))

    def of_asker(self, connection: Connection, user: UserInfo, cluster: str, data_type: DataType) -> list[Subscriber]:
        """The streams for the answers to a call: those of its connection, else those of the same user, since an agent may be
        changing its connection."""
        listening = self._listeners[data_type].get(cluster, _NO_SUBSCRIBERS)
        own = [one for one in listening if one.call.connection is connection]
        return own or [one for one in listening if one.who.user == user]

    def of_subjects(self, subjects: Collection[Subject]) -> list[Subscriber]:
        users = {user for subject in subjects for user in self._users.get(subject, ())}
        return [subscriber for user in users for subscriber in self._by_user[user]]

    def stop(self) -> None:
        """End all streams, and refuse new ones."""
        self._stopping = True
        for subscriber in self:
            subscriber.end(RpcError(Code.UNAVAILABLE, "the server is stopping; connect again"))

    # Changes

    def _publish_changes_of(self, service: Service) -> Callable[[ResourceChange], None]:
        data_type = service.row.data_type
        listeners = self._listeners[data_type]

        def on_change(change: ResourceChange) -> None:
            listening = listeners.get(change.cluster)
            if listening:
                self._deliver(change, data_type, listening)

        return on_change

    def _deliver(self, change: ResourceChange, data_type: DataType, listening: set[Subscriber]) -> None:
        try:
            event = change.event()
        except Exception as error:
            self._unfit(data_type, change.resource_id, error)
            return
        message = self.encoded(event, data_type)
        if message is None:
            return
        keep = change.action is Action.DELETE
        for subscriber in listening:
            if subscriber.visible is None or subscriber.visible(event):
                subscriber.offer(change.resource_id, message, keep=keep)

    def encoded(self, event: CloudEvent, data_type: DataType) -> bytes | None:
        """None if it cannot be encoded."""
        try:
            message = encode_event(event)
        except InvalidEvent as error:
            self._unfit(data_type, _id_of(event), error)
            return None
        if len(message) > self._max_event:
            self.oversized[data_type] += 1
            log.error(
                "object is too large to be sent",
                data_type=str(data_type),
                resource_id=_id_of(event),
                bytes=len(message),
                limit=self._max_event,
            )
            self.services[data_type].undeliverable(_id_of(event))
            return None
        return message

    def _fitting(self, event: CloudEvent) -> bytes | None:
        """None if it is too large or cannot be encoded."""
        try:
            message = encode_event(event)
        except InvalidEvent:
            return None
        return message if len(message) <= self._max_event else None

    def _unfit(self, data_type: DataType, resource_id: str, error: Exception) -> None:
        self.unfit[data_type] += 1
        text = f"{type(error).__name__}: {error}"
        log.error("object cannot be sent", data_type=str(data_type), resource_id=resource_id, error=text)

    def maker(
        self,
        service: Service,
        visible: Visible | None = None,
        statuses: Mapping[str, bytes] = _NO_STATUSES,
        *,
        withhold: bool = False,
    ) -> Make:
        """`statuses`: by resource id the status to be sent with an object, if it fits into the message. `withhold`: send the
        existence of an object that is too large."""
        data_type = service.row.data_type

        def make(resource_id: str) -> bytes | None:
            try:
                event = service.get(resource_id)
            except NotFound:
                # It was deleted meanwhile, which was sent.
                return None
            except Exception as error:
                self._unfit(data_type, resource_id, error)
                return None
            if visible is not None and not visible(event):
                return None
            status = statuses.get(resource_id)
            message = self._fitting(with_status(event, status)) if status else None
            message = message or self.encoded(event, data_type)
            return message or (self._fitting(withheld(event)) if withhold else None)

        return make

    # Once per iteration

    def _mark(self, subscriber: Subscriber) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._flush)
        self._dirty.append(subscriber)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for subscriber in dirty:
            try:
                subscriber.flush()
            except Exception as error:
                # An error in one stream must not affect others.
                log.error("stream failed", exc_info=True, user=subscriber.who.user.name, data_type=str(subscriber.row.data_type))
                subscriber.end(RpcError(Code.INTERNAL, type(error).__name__))

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        if self._heartbeat is None:
            await asyncio.Event().wait()
            return
        while True:
            await sleep(self._clock, self._heartbeat)
            message = encode_event(heartbeat())
            for index, subscriber in enumerate(list(self), 1):
                subscriber.beat(message)
                if index % BEATS_PER_TURN == 0:
                    await asyncio.sleep(0)


def _remove(index: dict[K, set[V]], key: K, member: V) -> None:
    members = index.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del index[key]


def _id_of(event: CloudEvent) -> str:
    return str(event.attributes.get(RESOURCE_ID, ""))
