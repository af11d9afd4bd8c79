"""The accepting part of a server: listening sockets, handshakes, and the table of connections with its limits.

A connection is counted from its acceptance on, first as an `Arrival`, then as the result of `protocol`. TLS material can be
replaced while serving: the listener's context only passes each handshake to the current one.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Generic, TypeVar

from muster.http.arrival import Arrival
from muster.http.connections import ConnectionEntry, ConnectionTable, relieve
from muster.http.filelimit import files_for_connections
from muster.http.listener import Listener, listening_sockets
from muster.http.message import Connection
from muster.http.tls import PeerCertificates, SwappableContext, shrink_tls_buffers
from muster.machinery.confinement import listening, may_listen

HANDSHAKE_TIMEOUT = 10.0

G = TypeVar("G", bound=ConnectionEntry)


def describe(transport: asyncio.BaseTransport) -> Connection:
    """The peer, with its verified certificates."""
    peer = transport.get_extra_info("peername")
    remote = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and len(peer) >= 2 else ("", 0)
    secured = transport.get_extra_info("ssl_object")
    info = Connection(remote, "http" if secured is None else "https")
    if secured is not None:
        certificates = PeerCertificates.of(secured)
        info.owner = info.peer_certificate = certificates.verified
        info.peer_chain = certificates.chain
        info.foreign_certificate = certificates.foreign
    return info


class Acceptor(Generic[G]):
    """`first_word` is the timeout for a client's first byte, and for its TLS handshake if that is less."""

    def __init__(
        self,
        protocol: Callable[[asyncio.AbstractEventLoop], asyncio.BaseProtocol],
        *,
        tls: ssl.SSLContext | None,
        max_connections: int,
        strangers: float,
        first_word: float,
    ) -> None:
        self._protocol = protocol
        self._tls = None if tls is None else SwappableContext(tls)
        self._first_word = first_word if tls is None else min(HANDSHAKE_TIMEOUT, first_word)
        self._table = ConnectionTable(max_connections, strangers, files_for_connections())
        self._listeners: list[Listener] = []
        self._ends: list[Callable[[], None]] = []
        """Callbacks for the end of listening."""
        self._arrivals: set[Arrival] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._empty: asyncio.Future[None] | None = None
        self.connections: set[G] = set()
        self.refused = 0
        self.stopping = False

    async def start(self, host: str, port: int) -> None:
        """Listen on one address; may be called again for further ones."""
        loop = self._loop = asyncio.get_running_loop()
        self.stopping = False
        may_listen(host)
        if self._tls is not None:
            shrink_tls_buffers()
        self._table.loop = loop
        for opened in await listening_sockets(host, port):
            self._listeners.append(Listener(opened, self._accepted, lambda: relieve(self._table)))
            self._ends.append(listening(*opened.getsockname()[:2]))

    @property
    def port(self) -> int:
        """The port of the first listener (useful after starting on port 0)."""
        return self._listeners[0].port

    def replace_tls(self, context: ssl.SSLContext) -> None:
        """Use `context` for new handshakes; established connections keep theirs."""
        if self._tls is None:
            raise ValueError("the server was made without TLS")
        self._tls.replace(context)

    def close(self) -> None:
        """Accept no more, and drop connections in their handshake."""
        self.stopping = True
        while self._listeners:
            self._listeners.pop().close()
        while self._ends:
            self._ends.pop()()
        for arrival in list(self._arrivals):
            arrival.drop()

    async def until_empty(self, seconds: float) -> None:
        if self.connections or self._arrivals:
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._empty], timeout=max(0.0, seconds))
            self._empty = None

    def sweep(self) -> None:
        for arrival in [a for a in self._arrivals if a.is_overdue]:
            arrival.drop()

    # For connections

    def admit(self, connection: G) -> bool:
        if self.stopping:
            return False
        self.connections.add(connection)
        self._table.add(connection)
        return True

    def forget(self, connection: G) -> None:
        self.connections.discard(connection)
        self._table.discard(connection)
        self._check_empty()

    def _accepted(self, accepted: socket.socket) -> None:
        loop = self._loop
        if loop is None or self.stopping or not self._table.make_room(accepted.fileno()):
            self.refused += 1
            accepted.close()
            return
        tls = None if self._tls is None else self._tls.listening
        arrival = Arrival(
            loop, accepted, lambda: self._protocol(loop), tls, self._first_word, self._table.first_byte_received, self._greeted
        )
        self._arrivals.add(arrival)
        self._table.add(arrival)

    def _greeted(self, arrival: Arrival) -> None:
        self._arrivals.discard(arrival)
        self._table.discard(arrival)
        self._check_empty()

    def _check_empty(self) -> None:
        if not self.connections and not self._arrivals and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)


class Accepting(Generic[G]):
    """The part of a server of either protocol that is delegated to its acceptor."""

    _acceptor: Acceptor[G]

    @property
    def port(self) -> int:
        """The port of the first listener (useful after starting on port 0)."""
        return self._acceptor.port

    @property
    def connections(self) -> int:
        return len(self._acceptor.connections)

    @property
    def refused_connections(self) -> int:
        return self._acceptor.refused

    def replace_tls(self, context: ssl.SSLContext) -> None:
        """Use `context` for new handshakes; established connections keep theirs."""
        self._acceptor.replace_tls(context)
