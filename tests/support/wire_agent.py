"""An agent that speaks the wire's own messages to one gRPC server, as a certificate's or a token's holder, for one cluster."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from muster.http.tls import client_context
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.transport.codecs.objects import encode_object
from muster.transport.codecs.resync import KnownObject, encode_resync_request, resync_end
from muster.transport.contract.event import RESOURCE_ID, RESOURCE_VERSION, CloudEvent, SubscriptionRequest
from muster.transport.contract.rows import Row
from muster.transport.contract.types import HEARTBEAT, Action, EventType, Subresource
from muster.transport.contract.wire import PUBLISH, SUBSCRIBE, decode_event, encode_publish_request, encode_subscription_request
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.status import Code, RpcError
from tests.support.pki import Authority, Pair

CREATE = (Subresource.SPEC, Action.CREATE)
UPDATE = (Subresource.SPEC, Action.UPDATE)
STATUS = (Subresource.STATUS, Action.UPDATE)


class WireAgent:
    def __init__(self, port: int, authority: Authority, cluster: str, token: str = "", credential: Pair | None = None) -> None:
        tls = client_context(authority.pair.cert.read_bytes(), alpn="h2")
        if credential is not None:
            tls.load_cert_chain(credential.cert, credential.key)

        async def bearer() -> str:
            return token

        self.cluster = cluster
        self._channel = RpcChannel("127.0.0.1", port, tls=tls, token=bearer if token else None)

    async def close(self) -> None:
        await self._channel.close()

    async def send(self, event: CloudEvent) -> None:
        await self._channel.unary(PUBLISH, encode_publish_request(event), timeout=30)

    async def publish(self, row: Row, subresource: Subresource, action: Action, obj: Object) -> None:
        asked = EventType(row.data_type, subresource, action)
        await self.send(encode_object(row, obj, asked, source=self.cluster, now=SYSTEM.now()))

    async def resync(self, row: Row, known: Iterable[KnownObject] = (), resync_id: str = "") -> None:
        asked = encode_resync_request(
            row.data_type, self.cluster, known, source=self.cluster, now=SYSTEM.now(), resync_id=resync_id
        )
        await self.send(asked)

    async def resynced(
        self, row: Row, events: AsyncIterator[CloudEvent], known: Sequence[KnownObject] = (), seconds: float = 20.0
    ) -> list[CloudEvent]:
        """All that a server answers to a resync."""
        mark = str(uuid.uuid4())
        answers: list[CloudEvent] = []
        await self.resync(row, known, mark)
        async with asyncio.timeout(seconds):
            async for event in events:
                if resync_end(event) == mark:
                    return answers
                answers.append(event)
        raise AssertionError("the stream ended")

    async def until_served(self, row: Row, uid: str, version: int = 0) -> CloudEvent:
        """Waits until the server, which learns of writes by a watch of its own, answers a resync with this object."""
        async with asyncio.timeout(20):
            while True:
                async with self.subscribed(row) as events:
                    for event in reversed(await self.resynced(row, events)):
                        if event.attributes[RESOURCE_ID] == uid and int(str(event.attributes[RESOURCE_VERSION])) >= version:
                            return event
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def subscribed(self, row: Row) -> AsyncIterator[AsyncIterator[CloudEvent]]:
        request = encode_subscription_request(SubscriptionRequest(cluster_name=self.cluster, data_type=str(row.data_type)))
        async with self._channel.stream(SUBSCRIBE, request, timeout=30) as stream:

            async def events() -> AsyncIterator[CloudEvent]:
                async for message in stream:
                    event = decode_event(message)
                    if event.type != HEARTBEAT:
                        yield event

            yield events()

    async def until_allowed(self, *rows: Row) -> None:
        """The hub binds an agent's rights a moment after it has let the cluster in."""
        async with asyncio.timeout(30):
            for row in rows:
                while not await self._allowed(row):  # noqa: ASYNC110 - only the hub knows
                    await asyncio.sleep(0.1)

    async def _allowed(self, row: Row) -> bool:
        try:
            async with self.subscribed(row):
                return True
        except RpcError as error:
            if error.code is not Code.PERMISSION_DENIED:
                raise
            return False


async def next_event(events: AsyncIterator[CloudEvent], seconds: float = 20.0) -> CloudEvent:
    async with asyncio.timeout(seconds):
        return await anext(events)
