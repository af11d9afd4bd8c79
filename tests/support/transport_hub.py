"""A hub of the transport for tests of agents: objects in dicts, behind as many servers as a test wants, over channels in memory.

It behaves as our servers do, or, with `go`, as upstream's: resyncs without an end and without lower versions, deletions without
bodies, and of what is gone without versions. Servers are killed, silenced, cold or deaf to a credential as a test says. What it
stores is versioned as an API server does it. Events travel as the bytes that the contract has for them.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.golang.timestamps import format_time
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object, ObjectKey, key_of
from muster.runtime.client import AlreadyExists, Conflict, KubeError, NotFound
from muster.transport.client.client import TransportClient
from muster.transport.client.connection import HubConnection
from muster.transport.client.metrics import ClientMetrics
from muster.transport.codecs.objects import decode_object, encode_object
from muster.transport.codecs.resync import (
    Tombstone,
    as_resync_response,
    decode_resync_request,
    encode_resync_end,
    encode_tombstone,
)
from muster.transport.codecs.works import decode_status, encode_spec, with_status, withheld
from muster.transport.contract.errors import to_rpc
from muster.transport.contract.event import (
    CLUSTER,
    DELETED,
    ORIGINAL_SOURCE,
    RESOURCE_ID,
    TIME,
    Attribute,
    CloudEvent,
    heartbeat,
    new_event_id,
)
from muster.transport.contract.rows import ROWS, TOKENS, WORKS, Row, Versioned
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.contract.wire import (
    EMPTY,
    PUBLISH,
    SUBSCRIBE,
    decode_publish_request,
    decode_subscription_request,
    encode_event,
)
from muster.transport.rpc.interfaces import ClientStream, Metadata
from muster.transport.rpc.status import Code, RpcError

FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"


@dataclass
class HubStream:
    """One subscription at a server."""

    row: Row
    cluster: str
    channel: FakeChannel
    metadata: Metadata
    opened: float
    messages: asyncio.Queue[bytes | RpcError | None] = field(default_factory=asyncio.Queue)

    def send(self, event: CloudEvent) -> None:
        self.messages.put_nowait(encode_event(event))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[bytes]:
        while True:
            message = await self.messages.get()
            if message is None:
                return
            if isinstance(message, RpcError):
                raise message
            yield message


@dataclass
class Server:
    """One of a hub's servers."""

    address: str
    alive: bool = True
    cold: bool = False
    deaf: bool = False
    """Takes calls and never answers them."""
    streams: list[HubStream] = field(default_factory=list)
    dialed: int = 0


class FakeHub:
    def __init__(self, *addresses: str, go: bool = False, clock: Clock = SYSTEM) -> None:
        self.go = go
        self.clock = clock
        self.servers = {address: Server(address) for address in addresses or ("hub.example:8090",)}
        self.objects: dict[Row, dict[ObjectKey, Object]] = {row: {} for row in ROWS.values()}
        self.published: list[CloudEvent] = []
        self.refuse: Callable[[str, Row], RpcError | None] = lambda method, row: None
        """Judges calls, by method and row."""
        self.on_write: Callable[[Row, Object], None] = lambda row, obj: None
        self.mute: set[Row] = set()
        """Rows whose changes are told to nobody."""
        self.version = 100
        self.too_large: set[str] = set()
        """Names of works that no message has room for."""
        self.subscription_ids = True
        self.registers_after = 0.0
        """Seconds from the head of a stream until it is served."""
        self.metrics = Metrics()
        """Of all its clients."""

    # What people and other controllers do.

    def put(self, row: Row, obj: Object) -> Object:
        """Make or replace an object."""
        obj = copy.deepcopy(obj)
        key, known = key_of(obj), self.objects[row].get(key_of(obj))
        metadata = obj["metadata"]
        metadata["uid"] = known["metadata"]["uid"] if known else metadata.get("uid") or str(uuid.uuid4())
        before = known["metadata"] if known else {}
        spec_changed = known is None or known.get("spec") != obj.get("spec")
        deletion_began = bool(metadata.get("deletionTimestamp")) and not before.get("deletionTimestamp")
        metadata["generation"] = before.get("generation", 0) + (spec_changed or deletion_began)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        obj = {"apiVersion": row.resource.api_version, "kind": row.resource.kind, **obj}
        self.objects[row][key] = obj
        if not (row is WORKS and known is not None and not _told(known, obj)):
            self._tell(row, Action.CREATE if known is None else Action.UPDATE, obj)
        return obj

    def change(self, row: Row, name: str, namespace: str = "", **parts: Any) -> Object:
        known = self.objects[row][ObjectKey(namespace, name)]
        return self.put(row, {**copy.deepcopy(known), **parts})

    def delete(self, row: Row, name: str, namespace: str = "") -> None:
        """As an API server does it: what has a finalizer waits for it."""
        obj = copy.deepcopy(self.objects[row][ObjectKey(namespace, name)])
        if obj["metadata"].get("finalizers"):
            obj["metadata"]["deletionTimestamp"] = format_time(self.clock.now())
            self.put(row, obj)
        else:
            self.remove(row, name, namespace)

    def remove(self, row: Row, name: str, namespace: str = "") -> None:
        """Gone, whatever holds it."""
        obj = self.objects[row].pop(ObjectKey(namespace, name))
        self.version += 1
        self._tell(row, Action.DELETE, obj)

    def get(self, row: Row, name: str, namespace: str = "") -> Object | None:
        return self.objects[row].get(ObjectKey(namespace, name))

    def restore(self, row: Row, obj: Object) -> None:
        """Put back an object as a backup has it, and tell nobody."""
        self.objects[row][key_of(obj)] = copy.deepcopy(obj)

    # What happens to servers.

    def kill(self, address: str) -> None:
        server = self.servers[address]
        server.alive = False
        self.cut(address)

    def cut(self, address: str, error: RpcError | None = None, row: Row | None = None) -> None:
        server = self.servers[address]
        for stream in [one for one in server.streams if row in (None, one.row)]:
            server.streams.remove(stream)
            stream.messages.put_nowait(error or RpcError(Code.UNAVAILABLE, "connection reset"))

    def beat(self) -> None:
        for stream in self.streams():
            stream.send(heartbeat())

    def served(self, row: Row) -> list[HubStream]:
        begun = self.clock.monotonic() - self.registers_after
        return [stream for stream in self.streams(row) if stream.opened <= begun]

    def streams(self, row: Row | None = None) -> list[HubStream]:
        return [stream for server in self.servers.values() for stream in server.streams if row in (None, stream.row)]

    # Clients.

    def connect(self, cluster: str = "c1", *, credential: Callable[[], object] | None = None, **options: Any) -> TransportClient:
        url = next(iter(self.servers))
        metrics = ClientMetrics(self.metrics, options.get("source", cluster))
        connection = HubConnection(url, tuple(self.servers), lambda address: FakeChannel(self, self.servers[address]), metrics)
        return TransportClient(connection, cluster, credential=credential, clock=self.clock, **options)

    # The wire.

    def _tell(self, row: Row, action: Action, obj: Object) -> None:
        if row in self.mute or (obj["metadata"]["name"] in self.too_large and action is not Action.DELETE):
            return
        cluster = row.belongs.cluster_of(obj)
        streams = [stream for stream in self.served(row) if stream.cluster == cluster]
        if streams:
            event = self.event(row, action, obj)
            for stream in streams:
                stream.send(event)

    def event(self, row: Row, action: Action, obj: Object) -> CloudEvent:
        gone = action is Action.DELETE
        if row.versioned is Versioned.GENERATION:
            return encode_spec(obj, action, now=self.clock.now(), gone=gone)
        event = encode_object(
            row, obj, EventType(row.data_type, Subresource.SPEC, action), source="kube", now=self.clock.now(), gone=gone
        )
        if self.go and DELETED in event.attributes:
            return msgspec.structs.replace(event, data=None)
        return event

    def resync(self, row: Row, event: CloudEvent, channel: FakeChannel) -> None:
        request = decode_resync_request(event)
        objects = {
            obj["metadata"]["uid"]: obj for obj in self.objects[row].values() if row.belongs.cluster_of(obj) == request.cluster
        }
        known = {one.resource_id: one for one in request.known}
        answers = []
        for uid, obj in objects.items():
            version, theirs = _version(row, obj), known[uid].version if uid in known else 0
            status = obj.get("status") if request.with_status and row.status_apart and not self.go else None
            if status or obj["metadata"].get("deletionTimestamp") or (version > theirs if self.go else version != theirs):
                answer = as_resync_response(self.event(row, Action.UPDATE, obj), row.data_type)
                if obj["metadata"]["name"] in self.too_large:
                    answers += [withheld(answer)] if request.resync_id and not self.go else []
                else:
                    answers.append(with_status(answer, orjson.dumps(status)) if status else answer)
        for uid, one in known.items():
            if uid not in objects:
                answers.append(self._vanished(row, request.cluster, uid, one.name, one.version))
        if request.resync_id and not self.go:
            answers.append(encode_resync_end(row.data_type, request.cluster, request.resync_id, now=self.clock.now()))
        for stream in self.served(row):
            asks = stream.channel is channel or self.go
            if asks and stream.cluster == request.cluster:
                for answer in answers:
                    stream.send(answer)

    def _vanished(self, row: Row, cluster: str, uid: str, name: str, version: int) -> CloudEvent:
        now = self.clock.now()
        if not self.go:
            namespace = cluster if row.resource.namespaced else ""
            gone = Tombstone(cluster=cluster, namespace=namespace, name=name, resource_id=uid, version=version)
            return encode_tombstone(row, gone, Action.RESYNC_RESPONSE, now=now)
        attributes: dict[str, Attribute] = {CLUSTER: cluster, ORIGINAL_SOURCE: "", TIME: now, RESOURCE_ID: uid, DELETED: now}
        kind = EventType(row.data_type, Subresource.SPEC, Action.RESYNC_RESPONSE)
        return CloudEvent(id=new_event_id(), source="source", type=str(kind), attributes=attributes)

    def publish(self, event: CloudEvent, channel: FakeChannel) -> None:
        event_type = event.event_type
        row = ROWS[event_type.data_type]
        if refusal := self.refuse("Publish", row):
            raise refusal
        if event_type.action is Action.RESYNC:
            if channel.server.cold:
                raise RpcError(Code.UNAVAILABLE, "the hub's objects are not known yet")
            self.resync(row, event, channel)
            return
        self.published.append(event)
        if (event_type.subresource, event_type.action) not in row.accepts:
            raise RpcError(Code.PERMISSION_DENIED, f"{event.type} is not accepted")
        if row is WORKS:
            self._work_status(event)
        elif row is TOKENS:
            self._token(event, channel)
        else:
            self._object(row, event_type, event)

    def _object(self, row: Row, event_type: EventType, event: CloudEvent) -> None:
        obj = decode_object(row, event).obj
        assert obj is not None
        known = self.objects[row].get(key_of(obj))
        if event_type.action is Action.CREATE:
            if known is not None:
                raise AlreadyExists(409, "AlreadyExists", f"{row.resource} {key_of(obj)} already exists", {"name": "it"})
            self.on_write(row, self.put(row, obj))
            return
        if known is None:
            if not row.sends:
                return
            raise NotFound(404, "NotFound", f"{row.resource} {key_of(obj)} not found", {"name": "it"})
        if row.sends and obj["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified", {"name": "it"})
        if event_type.subresource is Subresource.STATUS:
            obj = {**known, "status": obj.get("status")}
        elif row.sends:
            obj = {**obj, "status": known["status"]} if "status" in known else obj
        else:
            obj = {**known, **{part: value for part, value in obj.items() if part != "metadata"}}
        self.on_write(row, self.put(row, obj))

    def _work_status(self, event: CloudEvent) -> None:
        report = decode_status(event)
        work = next((one for one in self.objects[WORKS].values() if one["metadata"]["uid"] == report.resource_id), None)
        if work is None:
            return
        metadata = work["metadata"]
        if report.cleaned_up:
            metadata["finalizers"] = [one for one in metadata.get("finalizers") or () if one != FINALIZER]
            if metadata.get("deletionTimestamp") and not metadata["finalizers"]:
                self.remove(WORKS, metadata["name"], metadata["namespace"])
            return
        if metadata["generation"] > report.generation:
            return
        finalizers = metadata.get("finalizers") or []
        held = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
        self.put(WORKS, {**work, "metadata": {**metadata, "finalizers": held}, "status": report.status})

    def _token(self, event: CloudEvent, channel: FakeChannel) -> None:
        request = decode_object(TOKENS, event).obj
        assert request is not None
        answer = {**request, "status": {"token": f"token-of-{request['metadata']['name']}", "expirationTimestamp": None}}
        kind = EventType(TOKENS.data_type, Subresource.SPEC, Action.CREATE)
        told = encode_object(TOKENS, answer, kind, source="kube", now=self.clock.now())
        for stream in self.served(TOKENS):
            if stream.channel is channel:
                stream.send(told)


class FakeChannel:
    def __init__(self, hub: FakeHub, server: Server) -> None:
        self.hub = hub
        self.server = server
        self.closed = False
        server.dialed += 1

    def _check(self) -> None:
        if self.closed:
            raise RpcError(Code.CANCELLED, "the channel is closed")
        if not self.server.alive:
            raise RpcError(Code.UNAVAILABLE, "connection refused")

    async def unary(self, method: str, message: bytes, *, timeout: float) -> bytes:
        assert method == PUBLISH
        await asyncio.sleep(0)
        self._check()
        if self.server.deaf:
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.Event().wait()
            except TimeoutError:
                raise RpcError(Code.DEADLINE_EXCEEDED) from None
        try:
            self.hub.publish(decode_publish_request(message), self)
        except KubeError as error:
            raise to_rpc(error) from None
        return EMPTY

    @asynccontextmanager
    async def stream(self, method: str, message: bytes, *, timeout: float) -> AsyncIterator[ClientStream]:
        assert method == SUBSCRIBE
        await asyncio.sleep(0)
        self._check()
        request = decode_subscription_request(message)
        row = next(row for row in ROWS.values() if str(row.data_type) == request.data_type)
        if refusal := self.hub.refuse("Subscribe", row):
            raise refusal
        head = {"subscription-id": str(uuid.uuid4())} if self.hub.subscription_ids else {}
        stream = HubStream(row, request.cluster_name, self, head, self.hub.clock.monotonic())
        self.server.streams.append(stream)
        try:
            yield stream
        finally:
            if stream in self.server.streams:
                self.server.streams.remove(stream)

    async def close(self) -> None:
        self.closed = True
        for stream in [one for one in self.server.streams if one.channel is self]:
            self.server.streams.remove(stream)
            stream.messages.put_nowait(RpcError(Code.CANCELLED, "closed"))


def _version(row: Row, obj: Object) -> int:
    metadata = obj["metadata"]
    return int(metadata["generation"] if row.versioned is Versioned.GENERATION else metadata["resourceVersion"])


def _told(old: Object, new: Object) -> bool:
    """Whether agents are told of a work's change."""
    parts = ("labels", "annotations", "generation", "deletionTimestamp")
    return any(old["metadata"].get(part) != new["metadata"].get(part) for part in parts)
