"""Connections to servers with several addresses: attempts run concurrently, each started a moment after the one before (RFC 8305).

A name often has an address of each IP version, one of which does not work: packets are dropped without an error. With sequential
attempts, the working address would be tried after the timeout. Here the first successful attempt is used, and later successes are
closed. A failure starts the next attempt at once.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from ipaddress import ip_address
from itertools import chain, zip_longest
from typing import Any, Final, TypeVar

from muster.machinery.confinement import check_dial

DELAY: Final = 0.25
"""RFC 8305's "Connection Attempt Delay"."""
Address = tuple[socket.AddressFamily, int, Any]
"""Family, protocol and the argument of `connect`."""
T = TypeVar("T")
A = TypeVar("A")


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def dial(host: str, port: int) -> socket.socket:
    """A connected socket. Raises OSError, or UnicodeError for what cannot be a name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [(family, protocol, address) for family, _, protocol, _, address in found]
    return await first(alternating(addresses), lambda address: _connected(loop, host, address), _close)


def alternating(addresses: Sequence[Address]) -> list[Address]:
    """The resolver's order, with the families alternating: if one does not work, the second attempt is of the other."""
    preferred = [address for address in addresses if address[0] == addresses[0][0]]
    others = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for address in chain.from_iterable(zip_longest(preferred, others)) if address is not None]


async def first(candidates: Sequence[A], attempt: Callable[[A], Coroutine[Any, Any, T]], undo: Callable[[T], None]) -> T:
    """The result of the first successful attempt; `undo` is called with later ones. Raises the OSError of the last failure."""
    waiting = list(candidates)
    attempts: set[asyncio.Task[T]] = set()
    failure = OSError("the name has no address")
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.create_task(attempt(waiting.pop(0))))
            done, _ = await asyncio.wait(attempts, timeout=DELAY if waiting else None, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                attempts.remove(task)
                error = task.exception()
                if error is None:
                    attempts |= done - {task}
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failure = error
        raise failure
    finally:
        for task in attempts:
            task.cancel()
            task.add_done_callback(lambda late: None if late.cancelled() or late.exception() else undo(late.result()))


async def _connected(loop: asyncio.AbstractEventLoop, name: str, address: Address) -> socket.socket:
    family, protocol, place = address
    check_dial(name, place[0], place[1])
    made = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        made.setblocking(False)
        await loop.sock_connect(made, place)
    except BaseException:
        made.close()
        raise
    return made


def _close(late: socket.socket) -> None:
    late.close()
