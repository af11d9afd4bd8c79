"""Where the wire and those who use it meet: what a call is to a server's method, and what a channel is to a client.

On the server a call is judged on its head. `authenticate` is given the head before a byte of the message is read or kept, so a
stranger costs no message; what it returns is the call's `caller`. A method that answers a stream never waits for its reader:
`send` puts a message into the connection's next write and says at once how far the reader is behind, and it is the method's
business to keep few messages waiting (`writable`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from muster.http.message import Connection
from muster.transport.rpc.status import Code

Metadata = Mapping[str, str]
"""Header fields by lower-case name, without HTTP's own and gRPC's own."""


class CallHead(Protocol):
    @property
    def method(self) -> str:
        """`/package.Service/Method`."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def connection(self) -> Connection:
        """Who is connected, with the certificates that TLS has verified, if there are any."""

    @property
    def deadline(self) -> float | None:
        """In the loop's time: whoever asked is gone then."""


class Call(CallHead, Protocol):
    @property
    def caller(self) -> Any:
        """Whom `authenticate` found."""


class ServerStream(Protocol):
    """The answers to one call."""

    def start(self, metadata: Metadata) -> None:
        """Send the head now, with this metadata. The first `send` does it otherwise."""

    def send(self, message: bytes) -> None:
        """Put a message into the connection's next write. One that the client's limits hold back is kept, and counts as unsent."""

    @property
    def unsent(self) -> int:
        """Bytes of messages that the reader has not made room for yet."""

    async def writable(self) -> None:
        """Until nothing is unsent."""


Authenticate = Callable[[CallHead], Awaitable[Any]]
"""Gives whoever calls. Raises RpcError for whom nobody knows."""
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
    """Hears of every call of a method that there is, those of strangers included."""

    def started(self, method: str) -> None: ...

    def received(self, method: str, size: int) -> None:
        """A message came."""

    def sent(self, method: str, size: int) -> None:
        """A message was put on its way."""

    def handled(self, method: str, code: Code, seconds: float) -> None: ...


class ClientStream(Protocol):
    """The answers to one call of ours. Iterating ends when the server has ended it with OK, and raises RpcError otherwise."""

    @property
    def metadata(self) -> Metadata:
        """What came with the head."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class BidirectionalStream(ClientStream, Protocol):
    """A call with messages both ways. Messages that are not taken hold back the server; ours wait for it in `writable`."""

    @property
    def is_full(self) -> bool:
        """The server may send nothing before a message is taken."""

    def send(self, message: bytes) -> None: ...

    @property
    def unsent(self) -> int: ...

    async def writable(self) -> None:
        """Until nothing is unsent. Raises ConnectionResetError when that will never be."""

    def finish(self) -> None:
        """There are no further messages of ours."""


class Channel(Protocol):
    """A way to one server, connected when needed. Failures of connecting are RpcErrors with UNAVAILABLE."""

    async def unary(self, method: str, message: bytes, *, timeout: float) -> bytes: ...

    def stream(self, method: str, message: bytes, *, timeout: float) -> AbstractAsyncContextManager[ClientStream]:
        """Entered when the head has come, within `timeout`; left, the call is over."""

    async def close(self) -> None: ...
