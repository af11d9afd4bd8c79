"""The TLS context of the gateway's port: its certificate, and the authorities by which callers' certificates are verified.

Either may change at any time, each told by somebody else. A context is made beside the loop, so two changes can be under way at
once; they are made one after the other, each of what is newest when its turn comes, or the earlier could undo the later and refuse
every caller until the next rotation.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from muster.http import server_context
from muster.http.tls import HTTP_2_OR_1
from muster.runtime.webhook import ServingPair

Replace = Callable[[ssl.SSLContext], None]
"""Serves new connections with another context."""
Make = Callable[[bytes, bytes, bytes], ssl.SSLContext]
"""(certificate, key, authorities of callers); called in a thread."""


def http2_context(certificate: bytes, key: bytes, authorities: bytes) -> ssl.SSLContext:
    """That of a port which offers HTTP/2 too."""
    return server_context(certificate, key, authorities, alpn=HTTP_2_OR_1)


class ServingTls:
    """`first` makes the context to listen with; from then on `replace` is given every newer one."""

    def __init__(self, authorities: Callable[[], bytes], replace: Replace, *, make: Make = server_context) -> None:
        self._authorities = authorities
        self._replace = replace
        self._make = make
        self._turn = asyncio.Lock()
        self._rotated = asyncio.Event()
        self._pair: ServingPair | None = None
        self._verified_by = b""

    @property
    def current(self) -> bool:
        """Whether new connections are verified by the authorities that callers have now."""
        return self._verified_by == self._authorities()

    async def first(self, pair: ServingPair) -> ssl.SSLContext:
        """Raises OSError, ssl's among them."""
        return await self._made(pair)

    async def certified(self, pair: ServingPair) -> None:
        """Serve another certificate. Raises as `first` does."""
        async with self._turn:
            if pair != self._pair:
                self._replace(await self._made(pair))

    def rotated(self) -> None:
        """The authorities have changed."""
        self._rotated.set()

    async def run(self) -> None:
        """Follow the authorities until cancelled."""
        while True:
            await self._rotated.wait()
            self._rotated.clear()
            async with self._turn:
                assert self._pair is not None, "made first"
                self._replace(await self._made(self._pair))

    async def _made(self, pair: ServingPair) -> ssl.SSLContext:
        authorities = self._authorities()
        context = await asyncio.to_thread(self._make, pair.cert, pair.key, authorities)
        self._pair, self._verified_by = pair, authorities
        return context
