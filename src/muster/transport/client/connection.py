"""The way to a hub: one of its servers at a time, and the next one when that fails.

Everything of one agent goes over one channel, streams and calls alike: a server answers a resync on the connection that asked. A
channel that fails gives its place to one to the next address, and one whose credential has changed to one with the new credential;
what still goes over the old one goes on until whoever uses it has moved, and then it is closed. Nothing here waits between
attempts: pauses are the callers' business.
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
"""A channel to an address, with the credential of now."""

REFUSED: Final = frozenset(
    (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.UNIMPLEMENTED)
)
"""How calls end that another server of the same hub would end in the same way."""


def is_refusal(problem: KubeError | None) -> bool:
    """Whether the hub has said no, which it will say again a moment later."""
    return isinstance(problem, StatusError) and problem.code < 500 and not isinstance(problem, TooManyRequests)


class HubConnection:
    """`server` names the hub, for errors."""

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
        """Of channels that are open: how many streams and calls go over them."""
        self._renewed = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self.heartbeats = False
        """Whether this hub's servers send heartbeats, as far as is known."""
        self.markers = False
        """Whether they say when a resync has ended."""
        self.waiting: set[asyncio.Event] = set()
        """To be set when somebody has reached the hub: of those who sit out a pause because they could not."""
        self.publish_problem: KubeError | None = None
        """Why the last Publish did not reach the hub; None when it did."""

    @property
    def address(self) -> str:
        """Where the next call goes."""
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
        """A call over this channel was lost: what comes next goes to the next address. One that has been left already is none of
        our business; with one address, the channel connects again by itself."""
        if channel is self._current and self.several:
            self._next = (self._next + 1) % len(self._addresses)
            log.info("trying the hub's next address", server=self.server, address=self.address)
            self._leave()

    def silent(self, channel: Channel) -> None:
        """Nothing comes over this channel any more, and it does not know: what comes next goes over another one, to the next
        address if there is one."""
        if self.several:
            self.failed(channel)
        elif channel is self._current:
            self._leave()

    def reached(self) -> None:
        """A server has answered: whoever waits for that need not any longer."""
        for news in self.waiting:
            news.set()

    def renew(self) -> None:
        """Another credential is there: new calls go with it, and streams are to move."""
        self._leave()
        renewed, self._renewed = self._renewed, asyncio.Event()
        renewed.set()

    def renewal(self) -> asyncio.Event:
        """Set when streams that begin now are to move."""
        return self._renewed

    def _leave(self) -> None:
        left, self._current = self._current, None
        if left is not None:
            self._close_unused(left)

    @asynccontextmanager
    async def using(self, channel: Channel | None = None) -> AsyncIterator[Channel]:
        """A channel that stays open meanwhile: this one, or the one of now."""
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
        """The events of a data type from when it is entered. Raises KubeError, also for what the stream raises inside."""
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
        """A stream without an id is none: what it ends with is the reason. Raises RpcError and Unreachable."""
        try:
            async with asyncio.timeout(SUBSCRIBE_TIMEOUT / 2):
                async for _ in stream:
                    break
        except TimeoutError:
            pass
        raise Unreachable(self.server, f"{self.address} is no CloudEvents server: its streams have no {SUBSCRIPTION_ID}")

    async def publish(self, event: CloudEvent, resource: GVR, name: str = "", *, timeout: float = PUBLISH_TIMEOUT) -> None:
        """Raises KubeError. Where one address does not answer, another is tried: whatever is published may be published twice,
        since it names the version that it changes, or the name that it makes."""
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
        """Over this channel and no other, which is not left even if it fails. Raises KubeError."""
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
