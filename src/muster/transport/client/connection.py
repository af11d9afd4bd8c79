"""The connection to a hub: to one of its servers at a time, and to the next one when that fails.

All streams and calls of an agent use one channel: a server answers a resync on the connection that requested it. A failed channel
is replaced by one to the next address, and a channel with an old credential by one with the new credential; the former channel is
closed once its users have moved. There are no pauses between attempts here: callers make them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NoReturn

from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR
from muster.runtime.client import KubeError, StatusError, TooManyRequests, Unreachable
from muster.transport.client.metrics import ClientMetrics
from muster.transport.contract.errors import from_rpc
from muster.transport.contract.event import CloudEvent, SubscriptionRequest
from muster.transport.contract.rows import Row
from muster.transport.contract.wire import PUBLISH, SUBSCRIBE, encode_publish_request, encode_subscription_request
from muster.transport.rpc.interfaces import Channel, ClientStream
from muster.transport.rpc.status import Code, RpcError

log = get_logger("muster.transport.client")

PUBLISH_TIMEOUT: Final = 10.0
SUBSCRIBE_TIMEOUT: Final = 10.0
SUBSCRIPTION_ID: Final = "subscription-id"

Dial = Callable[[str], Channel]
"""Opens a channel to an address, with the current credential."""

REFUSED: Final = frozenset(
    (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.UNIMPLEMENTED)
)
"""Status codes that another server of the same hub would return too."""


def is_refusal(problem: KubeError | None) -> bool:
    """Whether the hub has refused the call, and will refuse it again a moment later."""
    return isinstance(problem, StatusError) and problem.code < 500 and not isinstance(problem, TooManyRequests)


class HubConnection:
    """`server` is the hub's name in errors."""

    def __init__(self, server: str, addresses: Sequence[str], dial: Dial, metrics: ClientMetrics | None = None) -> None:
        if not addresses:
            raise ValueError("a hub has at least one address")
        self.server = server
        self.metrics = metrics or ClientMetrics(None, "")
        self._addresses = tuple(addresses)
        self._dial = dial
        self._next = 0
        self._current: Channel | None = None
        self._users: dict[Channel, int] = {}
        """The open channels, with the number of their streams and calls."""
        self._renewed = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self.heartbeats = False
        """Whether this hub's servers send heartbeats, as far as is known."""
        self.markers = False
        """Whether they mark the end of a resync."""
        self.waiting: set[asyncio.Event] = set()
        """Set when the hub was reached: those of callers in a pause after a failed connection."""
        self.publish_problem: KubeError | None = None
        """Why the last Publish did not reach the hub; None if it did."""

    @property
    def address(self) -> str:
        """The address of the next call."""
        return self._addresses[self._next]

    @property
    def several(self) -> bool:
        return len(self._addresses) > 1

    @property
    def channel(self) -> Channel:
        if self._current is None:
            self._current = self._dial(self.address)
            self._users[self._current] = 0
        return self._current

    def failed(self, channel: Channel) -> None:
        """A call over this channel was lost: later calls use the next address. A channel that is no longer current is ignored; with
        one address, the channel reconnects by itself."""
        if channel is self._current and self.several:
            self._next = (self._next + 1) % len(self._addresses)
            log.info("trying the hub's next address", server=self.server, address=self.address)
            self._leave()

    def silent(self, channel: Channel) -> None:
        """The channel receives nothing any more without noticing: later calls use another channel, to the next address if there is
        one."""
        if self.several:
            self.failed(channel)
        elif channel is self._current:
            self._leave()

    def reached(self) -> None:
        """A server has answered: end the pauses of callers that wait for that."""
        for news in self.waiting:
            news.set()

    def renew(self) -> None:
        """The credential has changed: new calls use it, and streams are to move."""
        self._leave()
        renewed, self._renewed = self._renewed, asyncio.Event()
        renewed.set()

    def renewal(self) -> asyncio.Event:
        """Set when streams that start now are to move."""
        return self._renewed

    def _leave(self) -> None:
        left, self._current = self._current, None
        if left is not None:
            self._close_unused(left)

    @asynccontextmanager
    async def using(self, channel: Channel | None = None) -> AsyncIterator[Channel]:
        """A channel that stays open meanwhile: this one, or the current one."""
        channel = channel or self.channel
        self._users[channel] = self._users.get(channel, 0) + 1
        try:
            yield channel
        finally:
            if channel in self._users:
                self._users[channel] -= 1
                self._close_unused(channel)

    def _close_unused(self, channel: Channel) -> None:
        if channel is not self._current and self._users.get(channel) == 0:
            del self._users[channel]
            closing = asyncio.create_task(channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    @asynccontextmanager
    async def subscribe(self, row: Row, cluster: str) -> AsyncIterator[tuple[Channel, ClientStream]]:
        """The events of a data type from now on. Raises KubeError, also for errors of the stream inside."""
        request = SubscriptionRequest(cluster_name=cluster, data_type=str(row.data_type))
        async with self.using() as channel:
            try:
                message = encode_subscription_request(request)
                async with channel.stream(SUBSCRIBE, message, timeout=SUBSCRIBE_TIMEOUT) as stream:
                    if not stream.metadata.get(SUBSCRIPTION_ID):
                        await self._refusal(stream)
                    yield channel, stream
            except RpcError as error:
                if error.code not in REFUSED:
                    self.failed(channel)
                raise from_rpc(error, self.server, row.resource) from error

    async def _refusal(self, stream: ClientStream) -> NoReturn:
        """A stream without a subscription id was refused: its end has the reason. Raises RpcError and Unreachable."""
        try:
            async with asyncio.timeout(SUBSCRIBE_TIMEOUT / 2):
                async for _ in stream:
                    break
        except TimeoutError:
            pass
        raise Unreachable(self.server, f"{self.address} is no CloudEvents server: its streams have no {SUBSCRIPTION_ID}")

    async def publish(self, event: CloudEvent, resource: GVR, name: str = "", *, timeout: float = PUBLISH_TIMEOUT) -> None:
        """Raises KubeError. If one address does not answer, another is tried: an event may be published twice, since it has the
        version that it changes, or the name that it creates."""
        attempts = 2 if self.several else 1
        timeout /= attempts
        while True:
            attempts -= 1
            async with self.using() as channel:
                try:
                    await self.publish_over(channel, event, resource, name, timeout=timeout)
                    return
                except Unreachable:
                    self.failed(channel)
                    if not attempts:
                        raise

    async def publish_over(
        self, channel: Channel, event: CloudEvent, resource: GVR, name: str = "", *, timeout: float = PUBLISH_TIMEOUT
    ) -> None:
        """Over this channel only, which stays current even if it fails. Raises KubeError."""
        try:
            await channel.unary(PUBLISH, encode_publish_request(event), timeout=timeout)
        except RpcError as error:
            problem = from_rpc(error, self.server, resource, name)
            self.publish_problem = problem if isinstance(problem, Unreachable) else None
            raise problem from error
        self.publish_problem = None
        self.reached()
        self.metrics.sent(str(event.event_type.data_type))

    async def close(self) -> None:
        channels, self._current, self._users = list(self._users), None, {}
        await asyncio.gather(*(channel.close() for channel in channels), *self._closing, return_exceptions=True)
