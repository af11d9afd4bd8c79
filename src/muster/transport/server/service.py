"""The two methods of CloudEventService: validation, authorization, and the call of a service.

The order is fixed. The caller is authenticated by the head before a message is read. Then the message must be an event of a known
data type, with an action that agents may publish; then its cluster must be the caller's, and the hub must authorize the action
(`authorization.py`); then the cluster in the payload must agree. Only then a service gets it. Subscribe requests are checked in the
same order.

A bootstrap identity only receives its own objects of the kinds that joining needs: its cluster, and its own certificate signing
requests, by the requestor that the server has recorded on them.

A failed call ends with an RpcError: a service's KubeError with its Status, unexpected errors as INTERNAL, without their text, which
is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.api.agents import CLUSTER_LABEL, CSR_USER
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.runtime.client import KubeError, NotFound
from muster.transport.contract.errors import to_rpc
from muster.transport.contract.event import METADATA, RESOURCE_ID, CloudEvent, InvalidEvent
from muster.transport.contract.rows import SIGNING_REQUEST_ROW, Belongs, Row, Versioned
from muster.transport.contract.types import Action, DataType, EventType, InvalidType, Subresource
from muster.transport.contract.wire import EMPTY, PUBLISH, SUBSCRIBE, decode_publish_request, decode_subscription_request
from muster.transport.rpc.interfaces import Call, Methods, ServerStream, Streaming, Unary
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.authentication import Identity
from muster.transport.server.authorization import Authorization
from muster.transport.server.broker import Broker
from muster.transport.server.metrics import EventMetrics
from muster.transport.server.resync import Resync
from muster.transport.server.subscriber import Visible
from muster.transport.server.turns import FairTurns
from muster.transport.services.interfaces import Service

log = get_logger("muster.transport.server")

MAX_SUBSCRIPTIONS: Final = 64
"""Per connection: an agent has five, and several of its programs may share a connection."""
SYNC_CHECKS: Final = 100
SYNC_CHECK_INTERVAL: Final = 0.05


@dataclass(frozen=True)
class AuthorizedCaller:
    """A `Caller` of services."""

    user: UserInfo
    cluster: str
    is_agent: bool


class CloudEventService:
    def __init__(
        self,
        broker: Broker,
        authorization: Authorization,
        metrics: Metrics,
        *,
        turns: FairTurns | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.broker = broker
        self.turns = turns or FairTurns()
        self._authorization = authorization
        self._resync = Resync(broker, clock=clock)
        self._metrics = EventMetrics(metrics, broker, self._resync.unknown)
        self._clock = clock

    @property
    def methods(self) -> Methods:
        return {PUBLISH: Unary(self.publish), SUBSCRIBE: Streaming(self.subscribe)}

    async def publish(self, call: Call, message: bytes) -> bytes:
        """A UnaryMethod."""
        with self._metrics.call() as measured, _as_rpc_errors(call):
            who: Identity = call.caller
            async with self.turns.turn(who.user.name, len(message)):
                if call.deadline is not None and call.deadline <= asyncio.get_running_loop().time():
                    raise RpcError(Code.DEADLINE_EXCEEDED, "the caller's deadline passed before its turn came")
                event = decode_publish_request(message)
                service, event_type = self._service_for(event)
                cluster, payload = event.cluster, _read_payload(event, service.row, event_type)
                await self._authorization.publication(who, service.row, event_type, cluster, (payload and payload.name) or "")
                caller = AuthorizedCaller(who.user, cluster, who.is_agent)
                self._metrics.authorized(measured, PUBLISH, caller, service.row.data_type)
                if event_type.action is Action.RESYNC:
                    await self._answer_resync(call, service, event, caller)
                else:
                    if payload is not None:
                        _check_payload(service.row, cluster, payload)
                    answer = await service.handle_status_update(event, caller)
                    if answer is not None:
                        self._answer(call, service.row, cluster, answer)
                measured.sent = 1
                return EMPTY

    async def subscribe(self, call: Call, message: bytes, stream: ServerStream) -> None:
        """A StreamMethod."""
        with self._metrics.call() as measured, _as_rpc_errors(call):
            who: Identity = call.caller
            request = decode_subscription_request(message)
            if request.source:
                raise RpcError(Code.PERMISSION_DENIED, "source: this server is the only source; subscribe with cluster_name alone")
            if not request.cluster_name:
                raise RpcError(Code.INVALID_ARGUMENT, "cluster_name: the name of a cluster is expected")
            service = self._service(DataType.parse(request.data_type))
            await self._until_synced(service)
            async with self.turns.turn(who.user.name, len(message)):
                # There is no await between this check and the subscription, so every later change of permissions is noticed.
                await self._authorization.subscription(who, service.row, request.cluster_name)
            caller = AuthorizedCaller(who.user, request.cluster_name, who.is_agent)
            self._metrics.authorized(measured, SUBSCRIBE, caller, service.row.data_type)
            if self.broker.on_connection(call.connection) >= MAX_SUBSCRIPTIONS:
                raise RpcError(Code.RESOURCE_EXHAUSTED, f"this connection has {MAX_SUBSCRIPTIONS} subscriptions already")
            visible = None if who.is_agent else _visible_to_newcomer(service.row, who.user)
            subscriber = self.broker.subscribe(call, who, service.row, request.cluster_name, stream, visible=visible)
            try:
                if who.not_after is not None:
                    seconds = (who.not_after - self._clock.now()).total_seconds()
                    expired = RpcError(Code.UNAUTHENTICATED, "the client certificate has ended")
                    subscriber.expiry = self._clock.call_later(seconds, lambda: subscriber.end(expired))
                await subscriber.serve()
            finally:
                if subscriber.expiry is not None:
                    subscriber.expiry.cancel()
                self.broker.unsubscribe(subscriber)
                measured.sent = subscriber.sent

    async def _until_synced(self, service: Service) -> None:
        """Upstream's agents do not repeat a refused resync, so a service that has just started is waited for. Raises RpcError, and
        NotFound if the hub does not have the kind."""
        for _ in range(SYNC_CHECKS):
            if service.synced:
                return
            if not service.served:
                resource = service.row.resource
                details = {"group": resource.group, "kind": resource.plural}
                raise NotFound(404, "NotFound", f"the hub does not serve {resource}; try again when it does", details)
            await sleep(self._clock, SYNC_CHECK_INTERVAL)
        if not service.synced:
            raise RpcError(Code.UNAVAILABLE, "the server does not know all objects yet; try again")

    def _service_for(self, event: CloudEvent) -> tuple[Service, EventType]:
        event_type = event.event_type
        service = self._service(event_type.data_type)
        requested = event_type.subresource, event_type.action
        if requested not in service.row.accepts and requested != (Subresource.SPEC, Action.RESYNC):
            accepted = ", ".join(sorted(f"{subresource}.{action}" for subresource, action in service.row.accepts))
            raise InvalidType(f"{event.type!r}: of {service.row.data_type} agents may send {accepted}, spec.resync_request")
        return service, event_type

    def _service(self, data_type: DataType) -> Service:
        service = self.broker.services.get(data_type)
        if service is None:
            raise InvalidType(f"{str(data_type)[:200]!r} is not spoken; there are {', '.join(map(str, self.broker.services))}")
        return service

    async def _answer_resync(self, call: Call, service: Service, event: CloudEvent, caller: AuthorizedCaller) -> None:
        if not service.row.sends:
            return
        await self._until_synced(service)
        subscribers = self.broker.of_asker(call.connection, caller.user, caller.cluster, service.row.data_type)
        if not subscribers:
            raise RpcError(Code.UNAVAILABLE, "there is no subscription for the answers; subscribe first, on the same connection")
        await self._resync.answer(service, event, caller, subscribers)

    def _answer(self, call: Call, row: Row, cluster: str, answer: CloudEvent) -> None:
        message = self.broker.encoded(answer, row.data_type)
        if message is None:
            return
        for subscriber in self.broker.of_asker(call.connection, call.caller.user, cluster, row.data_type):
            subscriber.offer(answer.text(RESOURCE_ID), message, keep=True)


@contextmanager
def _as_rpc_errors(call: Call) -> Iterator[None]:
    try:
        yield
    except (RpcError, ConnectionError):
        # A ConnectionError means that the reader of the stream is gone.
        raise
    except (KubeError, InvalidEvent, InvalidType) as error:
        raise to_rpc(error) from error
    except Exception as error:
        log.error("call failed", exc_info=True, method=call.method, user=call.caller.user.name)
        raise RpcError(Code.INTERNAL, "the server failed; see its log") from error


class _Metadata(msgspec.Struct):
    """The metadata that determine an object's cluster."""

    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None


class _Payload(msgspec.Struct):
    metadata: _Metadata | None = None


class _Annotated(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Requested(msgspec.Struct):
    metadata: _Annotated | None = None


_read_object = msgspec.json.Decoder(_Payload).decode
_read_metadata = msgspec.json.Decoder(_Metadata).decode
_read_annotations = msgspec.json.Decoder(_Requested).decode


def _read_payload(event: CloudEvent, row: Row, event_type: EventType) -> _Metadata | None:
    """The metadata of the event's object; None if it needs none. Raises InvalidEvent."""
    if event_type.action is Action.RESYNC:
        return None
    try:
        if row.versioned is Versioned.GENERATION:
            # The status of a work is reported without the work; it is found by its id among the cluster's works.
            return _read_metadata(event.text(METADATA).encode()) if METADATA in event.attributes else None
        if event.data is None:
            raise InvalidEvent("the event has no data; an object is expected")
        return _read_object(event.data).metadata or _Metadata()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidEvent(f"the object in the event cannot be read: {error}") from None


def _check_payload(row: Row, cluster: str, metadata: _Metadata) -> None:
    """Raises RpcError if the object belongs to another cluster."""
    owner = {
        Belongs.NAMESPACE: metadata.namespace,
        Belongs.NAME: metadata.name,
        Belongs.LABEL: (metadata.labels or {}).get(CLUSTER_LABEL),
    }[row.belongs]
    if owner != cluster:
        raise RpcError(Code.PERMISSION_DENIED, f"the object is not of cluster {cluster!r}: {row.belongs.value}")


def _visible_to_newcomer(row: Row, user: UserInfo) -> Visible | None:
    if row is not SIGNING_REQUEST_ROW:
        return None

    def own(event: CloudEvent) -> bool:
        if event.data is None:
            return False
        try:
            metadata = _read_annotations(event.data).metadata
        except (msgspec.DecodeError, RecursionError):
            return False
        return metadata is not None and (metadata.annotations or {}).get(CSR_USER) == user.name

    return own
