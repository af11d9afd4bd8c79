"""A hub's services as dicts, streams whose readers a test commands, and calls without a wire."""

import asyncio
import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import orjson

from muster.api.agents import CLUSTER_LABEL, PREFIX, cluster_group
from muster.http.message import Connection
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.runtime.client.errors import NotFound
from muster.transport.contract.event import (
    CLUSTER,
    DELETED,
    METADATA,
    RESOURCE_ID,
    RESOURCE_VERSION,
    CloudEvent,
    SubscriptionRequest,
)
from muster.transport.contract.rows import ROWS, Belongs, Row, Versioned
from muster.transport.contract.types import Action, DataType, EventType, Subresource
from muster.transport.contract.wire import decode_event, encode_publish_request, encode_subscription_request
from muster.transport.rpc.status import RpcError
from muster.transport.server.authentication import Identity, identity
from muster.transport.services.interfaces import Caller, EventHandler, ObjectVersion

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ids = count(1)


class FakeStream:
    """A reader that reads at once, or (`pause`) not at all."""

    def __init__(self) -> None:
        self.metadata: dict[str, str] | None = None
        self.messages: list[bytes] = []
        self.unread: list[bytes] = []
        self._reading = asyncio.Event()
        self._reading.set()

    def start(self, metadata: Any) -> None:
        self.metadata = dict(metadata)

    def send(self, message: bytes) -> None:
        (self.messages if self._reading.is_set() else self.unread).append(message)

    @property
    def unsent(self) -> int:
        return sum(map(len, self.unread))

    async def writable(self) -> None:
        await self._reading.wait()

    def pause(self) -> None:
        self._reading.clear()

    def resume(self) -> None:
        self.messages += self.unread
        self.unread.clear()
        self._reading.set()

    @property
    def events(self) -> list[CloudEvent]:
        return [decode_event(message) for message in self.messages]

    @property
    def told(self) -> list[str]:
        """Resource ids, in order."""
        return [event.text(RESOURCE_ID) for event in self.events]


@dataclass
class FakeCall:
    caller: Any
    method: str = "/io.cloudevents.v1.CloudEventService/Publish"
    metadata: dict[str, str] = field(default_factory=dict)
    connection: Connection = field(default_factory=lambda: Connection(("192.0.2.1", 1234), "https"))
    deadline: float | None = None


@dataclass(frozen=True)
class FakeChange:
    cluster: str
    resource_id: str
    action: Action
    make: Callable[[], CloudEvent]

    def event(self) -> CloudEvent:
        return self.make()


class FakeService:
    """Objects by uid, of any clusters."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.synced = True
        self.served = True
        self.too_large: list[str] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.tombstones: dict[str, CloudEvent] = {}
        self.handled: list[tuple[CloudEvent, Caller]] = []
        self.unseen: builtins.list[ObjectVersion] = []
        """What the hub has that has not come here yet, or has not come in this version."""
        self.statuses: dict[str, bytes] = {}
        """What agents have reported."""
        self.lists = 0
        self.encoded = 0
        self.answer: CloudEvent | None = None
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None
        self._handlers: list[EventHandler] = []

    def put(self, obj: dict[str, Any]) -> None:
        uid = obj["metadata"]["uid"]
        action = Action.UPDATE if uid in self.objects else Action.CREATE
        self.objects[uid] = obj
        self._tell(obj, action)

    def remove(self, uid: str) -> None:
        obj = self.objects.pop(uid)
        self.tombstones[uid] = self.event(obj, Action.DELETE)
        self._tell(obj, Action.DELETE)

    def _tell(self, obj: dict[str, Any], action: Action) -> None:
        change = FakeChange(self.row.belongs.cluster_of(obj), obj["metadata"]["uid"], action, lambda: self.event(obj, action))
        for handler in self._handlers:
            handler(change)

    def event(self, obj: dict[str, Any], action: Action) -> CloudEvent:
        self.encoded += 1
        metadata = obj["metadata"]
        attributes: dict[str, Any] = {CLUSTER: self.row.belongs.cluster_of(obj), RESOURCE_ID: metadata["uid"]}
        generation = self.row.versioned is Versioned.GENERATION
        attributes[RESOURCE_VERSION] = metadata["generation"] if generation else metadata["resourceVersion"]
        if action is Action.DELETE:
            attributes[DELETED] = NOW
        type_ = str(EventType(self.row.data_type, Subresource.SPEC, action))
        return CloudEvent(id=str(next(_ids)), source="kube", type=type_, attributes=attributes, data=orjson.dumps(obj))

    def get(self, resource_id: str) -> CloudEvent:
        if resource_id not in self.objects:
            raise NotFound(404, "NotFound")
        return self.event(self.objects[resource_id], Action.UPDATE)

    def list(self, cluster: str) -> list[CloudEvent]:
        return [self.get(one.resource_id) for one in self.versions(cluster)]

    def versions(self, cluster: str) -> Iterable[ObjectVersion]:
        for uid, obj in self.objects.items():
            if self.row.belongs.cluster_of(obj) == cluster:
                metadata = obj["metadata"]
                version = metadata["generation" if self.row.versioned is Versioned.GENERATION else "resourceVersion"]
                yield ObjectVersion(uid, int(version), "deletionTimestamp" in metadata)

    async def live_versions(self, cluster: str, caller: Caller) -> Iterable[ObjectVersion]:
        self.lists += 1
        if self.failure is not None:
            raise self.failure
        return [*self.versions(cluster), *self.unseen]

    async def live_statuses(self, cluster: str, caller: Caller) -> Mapping[str, bytes]:
        self.lists += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return self.statuses

    def tombstone(self, cluster: str, resource_id: str) -> CloudEvent | None:
        found = self.tombstones.get(resource_id)
        return found if found is not None and found.cluster == cluster else None

    async def handle_status_update(self, event: CloudEvent, caller: Caller) -> CloudEvent | None:
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.handled.append((event, caller))
        return self.answer

    def undeliverable(self, resource_id: str) -> None:
        self.too_large.append(resource_id)

    def register_handler(self, handler: EventHandler) -> None:
        self._handlers.append(handler)

    async def run(self) -> None:
        await asyncio.Event().wait()


def all_services() -> dict[DataType, FakeService]:
    return {data_type: FakeService(row) for data_type, row in ROWS.items()}


def object_of(
    row: Row, cluster: str, uid: str, *, version: int = 1, annotations: dict[str, str] | None = None, **fields: Any
) -> Any:
    metadata: dict[str, Any] = {"name": uid, "uid": uid, "resourceVersion": str(version), "generation": version}
    if row.belongs is Belongs.NAMESPACE:
        metadata["namespace"] = cluster
    elif row.belongs is Belongs.NAME:
        metadata["name"] = cluster
    else:
        metadata["labels"] = {CLUSTER_LABEL: cluster}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": row.resource.api_version, "kind": row.resource.kind, "metadata": metadata, **fields}


def agent(cluster: str, name: str = "agent1", not_after: datetime | None = datetime(2027, 1, 1, tzinfo=UTC)) -> Identity:
    groups = (cluster_group(cluster), f"{PREFIX}managed-clusters", AUTHENTICATED)
    return identity(UserInfo(f"{PREFIX}{cluster}:{name}", groups=groups), not_after)


def newcomer(name: str = "bootstrap") -> Identity:
    return identity(UserInfo(f"system:serviceaccount:hub:{name}", groups=(AUTHENTICATED,)))


def published(
    row: Row, action: Action, cluster: str, obj: Any, *, subresource: Subresource = Subresource.SPEC, **attributes: Any
) -> bytes:
    """The request by which an agent asks for something about an object."""
    said: dict[str, Any] = {CLUSTER: cluster, **attributes}
    if row.versioned is Versioned.GENERATION and action is not Action.RESYNC and obj is not None:
        said.setdefault(METADATA, orjson.dumps(obj["metadata"]).decode())
        obj = {"conditions": []}
    type_ = str(EventType(row.data_type, subresource, action))
    data = None if obj is None else orjson.dumps(obj)
    return encode_publish_request(CloudEvent(id="1", source="agent", type=type_, attributes=said, data=data))


def subscription(data_type: object, cluster: str, source: str = "") -> bytes:
    return encode_subscription_request(SubscriptionRequest(source=source, cluster_name=cluster, data_type=str(data_type)))


async def code_of(call: Any) -> str:
    """By which code a call fails; empty if it does not."""
    try:
        await call
    except RpcError as error:
        return error.code.name
    return ""
