"""Connections to other servers, kept for reuse.

A connection returns to its pool only if no data of its last exchange can reach the next one. A kept connection may have been closed
by the server a moment ago, unnoticed. So an idempotent request is repeated on a new connection if there was no answer; another one
is sent only on a connection without signs of a close, and never repeated.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from muster.http.happy_eyeballs import dial, is_address
from muster.http.upstream import (
    AnswerHead,
    UpstreamConnection,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
    UpstreamUntrusted,
    host_port,
)
from muster.machinery.confinement import check_dial

P = TypeVar("P", bound=asyncio.BaseProtocol)


@contextmanager
def explained(upstream: str, whose: str = "") -> Iterator[None]:
    """Converts errors of connecting, except timeouts, to UpstreamError; `whose` is a prefix of the reason."""
    try:
        yield
    except TimeoutError:
        raise
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise UpstreamUntrusted(upstream, f"{whose}TLS: {reason}", getattr(error, "verify_code", 0)) from error
    except ConnectionRefusedError as error:
        raise UpstreamUnavailable(upstream, f"{whose}connection refused") from error
    except OSError as error:
        raise UpstreamUnavailable(upstream, f"{whose}{_message(error)}") from error
    except UnicodeError as error:
        raise UpstreamUnavailable(upstream, f"{whose}no host can have this name") from error


def _message(error: OSError) -> str:
    """The event loop's own errors may have no message."""
    if error.strerror or str(error):
        return error.strerror or str(error)
    return "connection reset" if isinstance(error, ConnectionResetError) else type(error).__name__


UpstreamKey = tuple[str, int, ssl.SSLContext | None, str | None]


def proven_name(key: UpstreamKey) -> str:
    """The name that a certificate must have: without the trailing dot of an absolute name."""
    return (key[3] or key[0]).removesuffix(".")


async def open_connection(key: UpstreamKey, protocol: Callable[[], P]) -> P:
    """A new connection of any protocol; errors are raised unchanged."""
    host, port, tls, _ = key
    loop = asyncio.get_running_loop()
    name = proven_name(key) if tls is not None else None
    if is_address(host):
        check_dial(host, host, port)
        _, connection = await loop.create_connection(protocol, host, port, ssl=tls, server_hostname=name)
        return connection
    _, connection = await loop.create_connection(protocol, sock=await dial(host, port), ssl=tls, server_hostname=name)
    return connection


class UpstreamPool:
    """Idle connections by upstream; the TLS context is part of the key, so identities never share a connection."""

    def __init__(self, *, max_idle: int = 32, idle_timeout: float = 30.0) -> None:
        self._max_idle = max_idle
        self._idle_timeout = idle_timeout
        self._idle: dict[UpstreamKey, list[UpstreamConnection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def idle(self) -> int:
        return sum(map(len, self._idle.values()))

    async def connect(self, key: UpstreamKey, timeout: float, *, fresh: bool = False, sure: bool = False) -> UpstreamConnection:
        """An idle connection if there is one (and not `fresh`), else a new one. With `sure`, a connection that the server has
        closed is not used even if the event loop has not noticed it yet."""
        kept = [] if fresh else self._idle.get(key, [])
        while kept:
            connection = kept.pop()
            if connection.settled and (not sure or connection.silent()):
                return connection
            connection.abort()
        try:
            return await self._new(key, timeout)
        except UpstreamError as error:
            error.sent = False
            raise

    async def _new(self, key: UpstreamKey, timeout: float) -> UpstreamConnection:
        upstream = host_port(key[0], key[1])
        try:
            with explained(upstream):
                async with asyncio.timeout(timeout):
                    return await self.open(key)
        except TimeoutError:
            raise UpstreamTimeout(upstream, f"no connection within {timeout:g} s") from None

    async def begin(
        self, key: UpstreamKey, message: bytes, *, timeout: float, repeat: bool, bodiless: bool = False
    ) -> tuple[UpstreamConnection, AnswerHead]:
        """Send `message`, and wait until a response begins; the caller must release the connection. `timeout` is for connecting.
        With `repeat`, a kept connection that was closed without an answer is replaced. Raises UpstreamError."""
        connection = await self.connect(key, timeout, sure=not repeat)
        while True:
            try:
                connection.exchange(message, bodiless=bodiless)
                head = await connection.answer()
            except BaseException as error:
                self.release(key, connection)
                stale = isinstance(error, UpstreamUnavailable) and connection.used and not connection.received
                if not (repeat and stale):
                    raise
            else:
                # Some servers send 408 before they close an idle connection, which may have crossed our request.
                if not (repeat and connection.used and head.status == 408):
                    return connection, head
                self.release(key, connection)
            connection = await self.connect(key, timeout, fresh=True)

    async def request(
        self, key: UpstreamKey, message: bytes, *, timeout: float, repeat: bool, bodiless: bool = False, longest: int | None = None
    ) -> tuple[AnswerHead, bytes]:
        """As `begin`, and the whole body of at most `longest` bytes."""
        connection, head = await self.begin(key, message, timeout=timeout, repeat=repeat, bodiless=bodiless)
        try:
            return head, await connection.whole_body(longest)
        finally:
            self.release(key, connection)

    async def open(self, key: UpstreamKey) -> UpstreamConnection:
        """A new connection; errors are raised unchanged."""
        return await open_connection(key, lambda: self.protocol(host_port(key[0], key[1])))

    def protocol(self, upstream: str) -> UpstreamConnection:
        return UpstreamConnection(asyncio.get_running_loop(), upstream)

    def release(self, key: UpstreamKey, connection: UpstreamConnection) -> None:
        """Keep the connection if it can be reused after its exchange, else close it."""
        kept = self._idle.setdefault(key, [])
        if not connection.settled or self._closed:
            connection.abort()
        elif len(kept) >= self._max_idle:
            connection.close()
        else:
            connection.used = True
            connection.resume_reading()
            connection.idle_since = time.monotonic()
            kept.append(connection)
            if self._sweeper is None:
                self._sweeper = connection.loop.call_later(self._idle_timeout, self._sweep, connection.loop)
        if not kept:
            del self._idle[key]

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        oldest = time.monotonic() - self._idle_timeout
        for key, kept in list(self._idle.items()):
            stale = [connection for connection in kept if connection.idle_since <= oldest or not connection.alive]
            for connection in stale:
                kept.remove(connection)
                connection.close()
            if not kept:
                del self._idle[key]
        self._sweeper = loop.call_later(self._idle_timeout / 2, self._sweep, loop) if self._idle else None

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are released."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for kept in self._idle.values():
            for connection in kept:
                connection.close()
                # The close does not wait for the peer: it may not answer, and the event loop may end before.
                connection.abort()
        self._idle.clear()
