"""The interfaces between gRPC and its users: calls of a server's methods, and channels of a client.

On the server, a call is authenticated by its head. `authenticate` gets the head before a byte of the message is read or kept, so
unauthenticated callers cost no memory for messages; its result is the call's `caller`. A streaming method never waits for its
reader: `send` puts a message into the connection's next write, `unsent` is how far the reader is behind, and the method must limit
the number of waiting messages (`writable`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from muster.http.message import Connection
from muster.transport.rpc.status import Code

Metadata = Mapping[str, str]
"""Headers by lower-case name, without those of HTTP and gRPC."""


class CallHead(Protocol):
    @property
    def method(self) -> str:
        """`/package.Service/Method`."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def connection(self) -> Connection:
        """The connection, with the verified client certificates, if there are any."""

    @property
    def deadline(self) -> float | None:
        """The deadline in the event loop's time."""


class Call(CallHead, Protocol):
    @property
    def caller(self) -> Any:
        """The result of `authenticate`."""


class ServerStream(Protocol):
    """The response messages of one call."""

    def start(self, metadata: Metadata) -> None:
        """Send the head now, with this metadata. Otherwise the first `send` does."""

    def send(self, message: bytes) -> None:
        """Send a message with the connection's next write. It is queued if the client's flow control requires that, and counts as
        unsent."""

    @property
    def unsent(self) -> int:
        """Bytes of messages that the client's flow control holds back."""

    async def writable(self) -> None:
        """Wait until nothing is unsent."""


Authenticate = Callable[[CallHead], Awaitable[Any]]
"""Returns the caller. Raises RpcError for unauthenticated callers."""
UnaryMethod = Callable[[Call, bytes], Awaitable[bytes]]
StreamMethod = Callable[[Call, bytes, ServerStream], Awaitable[None]]
"""Both raise RpcError. A call that is over for its client (reset, connection lost, deadline) is cancelled."""


@dataclass(frozen=True, slots=True)
class Unary:
    run: UnaryMethod


@dataclass(frozen=True, slots=True)
class Streaming:
    run: StreamMethod


Methods = Mapping[str, Unary | Streaming]
"""By `/package.Service/Method`."""


class CallObserver(Protocol):
    """Observes every call of an existing method, including unauthenticated ones."""

    def started(self, method: str) -> None: ...

    def received(self, method: str, size: int) -> None:
        """A message was received."""

    def sent(self, method: str, size: int) -> None:
        """A message was sent or queued."""

    def handled(self, method: str, code: Code, seconds: float) -> None: ...


class ClientStream(Protocol):
    """The response messages of a client's call. Iteration ends when the server has ended it with OK, and raises RpcError
    otherwise."""

    @property
    def metadata(self) -> Metadata:
        """The metadata of the response's head."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class BidirectionalStream(ClientStream, Protocol):
    """A bidirectional call. The server's flow control depends on the messages that are taken; ours wait in `writable`."""

    @property
    def is_full(self) -> bool:
        """The server cannot send more before a message is taken."""

    def send(self, message: bytes) -> None: ...

    @property
    def unsent(self) -> int: ...

    async def writable(self) -> None:
        """Wait until nothing is unsent. Raises ConnectionResetError if that can never happen."""

    def finish(self) -> None:
        """End our side of the call: no further messages."""


class Channel(Protocol):
    """A channel to one server, connected when needed. Connection failures are RpcErrors with UNAVAILABLE."""

    async def unary(self, method: str, message: bytes, *, timeout: float) -> bytes: ...

    def stream(self, method: str, message: bytes, *, timeout: float) -> AbstractAsyncContextManager[ClientStream]:
        """Entered when the head has arrived, within `timeout`; exiting ends the call."""

    async def close(self) -> None: ...
