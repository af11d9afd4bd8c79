"""A connection between its acceptance and the end of its TLS handshake: counted and dropped like any other.

Until its client sends a byte it is only a socket; TLS state costs a thousand times as much.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Hashable

CLOSE_TIMEOUT = 5.0
"""Seconds for a client to answer the end of a TLS connection."""


class Arrival:
    owner: Hashable | None = None

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        accepted: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
        timeout: float,
        on_first_byte: Callable[[Arrival], None],
        left: Callable[[Arrival], None],
    ) -> None:
        """`on_first_byte` is called when the client has sent a byte, `left` when the connection is passed to `protocol`, or gone.
        `timeout` is for the first byte, and for the handshake."""
        self._loop = loop
        self._socket = accepted
        self._protocol = protocol
        self._tls = tls
        self._timeout = timeout
        self._on_first_byte = on_first_byte
        self._left = left
        self.silent = True
        self._since = time.monotonic()
        self._greeting: asyncio.Task[None] | None = None
        try:
            self.address = str(accepted.getpeername()[0])
        except OSError:
            self.address = ""
        accepted.setblocking(False)
        loop.add_reader(accepted.fileno(), self._first_byte_received)

    def _first_byte_received(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._since = time.monotonic()
        self.silent = False
        self._on_first_byte(self)
        self._greeting = self._loop.create_task(self._greet())

    async def _greet(self) -> None:
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(self._protocol, self._socket)
            else:
                await self._loop.connect_accepted_socket(
                    self._protocol,
                    self._socket,
                    ssl=self._tls,
                    ssl_handshake_timeout=self._timeout,
                    ssl_shutdown_timeout=CLOSE_TIMEOUT,
                )
        except OSError:  # it is gone, speaks no TLS or has an unknown certificate, which TLS has reported to it
            pass
        finally:
            self._left(self)

    def waiting_since(self) -> float | None:
        return self._since

    @property
    def is_overdue(self) -> bool:
        """Whether it has exceeded its timeout for the first byte."""
        return self.silent and time.monotonic() - self._since > self._timeout

    def drop(self) -> None:
        if self.silent:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._left(self)
        else:
            # The transport that owns the socket by now notices its end and cleans up.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
