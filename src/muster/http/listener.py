"""Accepts a few connections per iteration of the event loop, so that many new connections do not block existing ones.

The sockets are our own instead of the event loop's, because a connection must be counted and closable from its acceptance: the loop
reports it only after its TLS handshake, and clients that never finish that hold files too.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from muster.http.keepalive import keep_tcp_alive

BACKLOG = 4096
ACCEPTS_PER_TURN = 32
RETRY_SECONDS = 0.05
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

logger = logging.getLogger("muster.http")

Accepted = Callable[[socket.socket], None]


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """One socket for each address of the host; raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            opened.append(_bound(family, address))
    except BaseException:
        for one in opened:
            one.close()
        raise
    return opened


def _bound(family: int, address: object) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)  # type: ignore[arg-type]
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise OSError(
            error.errno, f"error while attempting to bind on address {address!r}: {(error.strerror or '').lower()}"
        ) from None
    opened.setblocking(False)
    keep_tcp_alive(opened)
    return opened


class Listener:
    """`shed` frees a file if there is none left to accept with."""

    def __init__(self, opened: socket.socket, accepted: Accepted, shed: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = opened
        self._accepted = accepted
        self._shed = shed
        self._retry: asyncio.TimerHandle | None = None
        self._listen()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _listen(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # closed before it was accepted
                continue
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._rest(error)
                return
            self._accepted(accepted)

    def _rest(self, error: OSError) -> None:
        """Free a file and retry later: a socket that cannot be accepted from stays readable, and an immediate retry would be a busy
        loop."""
        if not self._shed():
            logger.warning("no connection can be accepted: %s", error.strerror)
        self._loop.remove_reader(self._socket.fileno())
        self._retry = self._loop.call_later(RETRY_SECONDS, self._listen)
