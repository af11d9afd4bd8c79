"""The TLS context of the gateway's port: its certificate, and the certificate authorities for client certificates.

Either may change at any time, independently of the other. A context is created in a thread, so two changes can overlap; they are
serialized, and each uses the newest values when its turn comes. Otherwise the earlier change could undo the later one, and every
caller would be refused until the next rotation.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from muster.http import server_context
from muster.http.tls import HTTP_2_OR_1
from muster.runtime.webhook import ServingPair

ReplaceContext = Callable[[ssl.SSLContext], None]
"""Use another context for new connections."""
MakeContext = Callable[[bytes, bytes, bytes], ssl.SSLContext]
"""(certificate, key, callers' certificate authorities); called in a thread."""


def http2_context(certificate: bytes, key: bytes, authorities: bytes) -> ssl.SSLContext:
    """The context of a port that also offers HTTP/2."""
    return server_context(certificate, key, authorities, alpn=HTTP_2_OR_1)


class ServingTls:
    """`initial_context` creates the context to listen with; `replace` is called with every later one."""

    def __init__(self, authorities: Callable[[], bytes], replace: ReplaceContext, *, make: MakeContext = server_context) -> None:
        self._authorities = authorities
        self._replace = replace
        self._make = make
        self._lock = asyncio.Lock()
        self._rotated = asyncio.Event()
        self._pair: ServingPair | None = None
        self._verified_by = b""

    @property
    def is_current(self) -> bool:
        """Whether new connections are verified with the current certificate authorities of callers."""
        return self._verified_by == self._authorities()

    async def initial_context(self, pair: ServingPair) -> ssl.SSLContext:
        """Raises OSError, including ssl.SSLError."""
        return await self._make_context(pair)

    async def set_certificate(self, pair: ServingPair) -> None:
        """Serve another certificate. Raises as `initial_context`."""
        async with self._lock:
            if pair != self._pair:
                self._replace(await self._make_context(pair))

    def authorities_changed(self) -> None:
        """The certificate authorities of callers have changed."""
        self._rotated.set()

    async def run(self) -> None:
        """Apply changes of the certificate authorities until cancelled."""
        while True:
            await self._rotated.wait()
            self._rotated.clear()
            async with self._lock:
                assert self._pair is not None, "initial_context comes first"
                self._replace(await self._make_context(self._pair))

    async def _make_context(self, pair: ServingPair) -> ssl.SSLContext:
        authorities = self._authorities()
        context = await asyncio.to_thread(self._make, pair.cert, pair.key, authorities)
        self._pair, self._verified_by = pair, authorities
        return context
