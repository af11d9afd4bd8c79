"""`python -m bench.memory_hub PORT CERTIFICATE KEY CLIENT_CA`: our gRPC server before objects in memory.

It is driven as the peer `transport-broker` is. Wire, broker, codecs and resync are the server's own; who has a certificate may do
everything, as with the peer. JSON lines on standard input, one answer each: `fill` keeps works that nobody is told of, `feed` tells
changes to clusters in turn, each encoded anew.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
import uvloop

from muster.http.http2.server import ServerLimits
from muster.http.tls import server_context
from muster.machinery.allocation import freeze_heap
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.metrics import Metrics
from muster.runtime.client import NotFound
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import ADDONS_ALPHA, CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW, WORKS, Row
from muster.transport.contract.types import Action
from muster.transport.rpc.server import RpcServer
from muster.transport.server.authentication import CallerAuthentication
from muster.transport.server.broker import Broker
from muster.transport.server.service import CloudEventService
from muster.transport.services.changes import encode
from muster.transport.services.interfaces import Caller, EventHandler, ObjectVersion

FED: Final = (WORKS, CLUSTERS, SIGNING_REQUEST_ROW, LEASE_ROW, ADDONS_ALPHA)
TURN: Final = 256
"""Changes that come at once, as a watch brings them."""


def make_object(row: Row, cluster: str, number: int, size: int) -> bytes:
    """The same as the peer's, of `size` bytes of content."""
    metadata: dict[str, Any] = {
        "name": f"load-{number}",
        "namespace": cluster,
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": "7",
        "generation": 1,
        "labels": {"open-cluster-management.io/cluster-name": cluster},
    }
    made: dict[str, Any] = {"apiVersion": row.resource.api_version, "kind": row.resource.kind, "metadata": metadata}
    if row is WORKS:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "load", "namespace": "default"}}
        made["spec"] = {"workload": {"manifests": [{**manifest, "data": {"filler": "x" * size}}]}}
    else:
        metadata["annotations"] = {"filler": "x" * size}
    if row is CLUSTERS:
        metadata["name"] = cluster
        del metadata["namespace"]
    return orjson.dumps(made)


class FedChange(msgspec.Struct, frozen=True):
    service: MemoryService
    cluster: str
    resource_id: str
    """Of the change and not of the object, so that none is merged into another: the peer has no merging."""
    action: Action
    raw: bytes

    def event(self) -> CloudEvent:
        return encode(self.service.row, self.raw, self.action, SYSTEM.now())


class MemoryService:
    def __init__(self, row: Row) -> None:
        self.row = row
        self.synced = True
        self.served = True
        self.works: dict[str, dict[str, bytes]] = {}
        """By cluster and uid."""
        self.pending: dict[str, FedChange] = {}
        self._handlers: list[EventHandler] = []

    def feed(self, change: FedChange) -> None:
        self.pending[change.resource_id] = change
        for handler in self._handlers:
            handler(change)

    def get(self, resource_id: str) -> CloudEvent:
        if resource_id in self.pending:
            return self.pending[resource_id].event()
        for kept in self.works.values():
            if resource_id in kept:
                return encode(self.row, kept[resource_id], Action.RESYNC_RESPONSE, SYSTEM.now())
        raise NotFound(404, "NotFound", resource_id)

    def list(self, cluster: str) -> list[CloudEvent]:
        return [encode(self.row, raw, Action.RESYNC_RESPONSE, SYSTEM.now()) for raw in self.works.get(cluster, {}).values()]

    def versions(self, cluster: str) -> Iterable[ObjectVersion]:
        return [ObjectVersion(uid, 1) for uid in self.works.get(cluster, {})]

    async def live_versions(self, cluster: str, caller: Caller) -> Iterable[ObjectVersion]:
        return self.versions(cluster)

    async def live_statuses(self, cluster: str, caller: Caller) -> Mapping[str, bytes]:
        return {}

    def tombstone(self, cluster: str, resource_id: str) -> CloudEvent | None:
        return None

    async def handle_status_update(self, event: CloudEvent, caller: Caller) -> CloudEvent | None:
        return None

    def undeliverable(self, resource_id: str) -> None:
        return

    def register_handler(self, handler: EventHandler) -> None:
        self._handlers.append(handler)

    async def run(self) -> None:
        await asyncio.Event().wait()


class Anybody:
    """Authorization that is none."""

    async def subscription(self, *_: object) -> None: ...

    async def publication(self, *_: object) -> None: ...


class NoTokens:
    async def authenticate(self, token: str) -> UserInfo | None:
        return None


class MemoryHub:
    def __init__(self) -> None:
        self.services = {row.data_type: MemoryService(row) for row in FED}
        self.broker = Broker(self.services.values())
        self.service = CloudEventService(self.broker, Anybody(), Metrics())  # type: ignore[arg-type]

    async def start(self, port: int, tls: ssl.SSLContext) -> None:
        server = RpcServer(self.service.methods, CallerAuthentication(NoTokens()), tls=tls, limits=ServerLimits())
        await server.start("127.0.0.1", port)

    async def do(self, asked: dict[str, Any]) -> Any:
        match asked["op"]:
            case "fill":
                return self._fill(asked["cluster"], asked["count"], asked["size"])
            case "feed":
                return await self._feed(asked["prefix"], asked["clusters"], asked["streams"], asked["count"], asked["size"])
        raise ValueError(f"no operation {asked['op']!r}")

    def _fill(self, cluster: str, count: int, size: int) -> int:
        made = (orjson.loads(make_object(WORKS, cluster, number, size)) for number in range(count))
        self.services[WORKS.data_type].works[cluster] = {one["metadata"]["uid"]: orjson.dumps(one) for one in made}
        return count

    async def _feed(self, prefix: str, clusters: int, streams: int, count: int, size: int) -> dict[str, float]:
        services = [self.services[row.data_type] for row in FED[:streams]]
        targets = []
        for number in range(clusters * streams):
            service, cluster = services[number % streams], f"{prefix}{number // streams:05d}"
            targets.append((service, cluster, make_object(service.row, cluster, number, size)))
        began = time.monotonic()
        for number in range(count):
            service, cluster, raw = targets[number % len(targets)]
            service.feed(FedChange(service, cluster, str(number), Action.UPDATE, raw))
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)
        return {"seconds": time.monotonic() - began}


async def main(port: int, tls: ssl.SSLContext) -> None:
    hub = MemoryHub()
    await hub.start(port, tls)
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    heartbeats = asyncio.create_task(hub.broker.run())
    freeze_heap()
    try:
        while line := await reader.readline():
            try:
                answer: dict[str, Any] = {"answer": await hub.do(orjson.loads(line))}
            except (ValueError, KeyError) as error:
                answer = {"error": repr(error)}
            print(orjson.dumps(answer).decode(), flush=True)
    finally:
        heartbeats.cancel()


if __name__ == "__main__":
    certificate, key, clients = (Path(name).read_bytes() for name in sys.argv[2:5])
    uvloop.run(main(int(sys.argv[1]), server_context(certificate, key, clients, alpn="h2")))
