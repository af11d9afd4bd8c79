"""Connections to other servers through an HTTP proxy, with `CONNECT` for servers with TLS.

The connection to the proxy itself is plain or TLS, with the CAs of the servers behind it, or with its own. Requests to a server
without TLS are sent to the proxy to be forwarded: their target must be the absolute URL, and an https proxy is verified by the
system's CAs.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from functools import cached_property
from urllib.parse import unquote, urlsplit

from muster.http.pool import UpstreamKey, UpstreamPool, explained, open_connection, proven_name
from muster.http.tls import client_context
from muster.http.upstream import UpstreamConnection, host_port


class ProxyRefused(OSError):
    """The proxy refuses the tunnel."""


class Proxy:
    """`address` is http or https, with user name and password if the proxy requires them. `ca` (PEM) is for the proxy itself; the
    system's CAs are used without it. Raises ValueError for an invalid CA."""

    def __init__(self, address: str, ca: bytes | None = None) -> None:
        parts = urlsplit(address)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self.name = host_port(self._host, self._port)
        self._own_trust = None if ca is None else _trusting(ca)
        self.authorization = ""
        """A Proxy-Authorization header line."""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.authorization = f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return self._own_trust or client_context()

    async def reach(self, protocol: Callable[[str], UpstreamConnection], trust: ssl.SSLContext | None = None) -> UpstreamConnection:
        """A connection to the proxy itself, made by `protocol` with the proxy's name. Raises UpstreamError."""
        with explained(self.name, f"the proxy {self.name}: "):
            return await open_connection(
                (self._host, self._port, (trust or self._trust) if self._secure else None, None), lambda: protocol(self.name)
            )

    async def tunnel(self, outer: UpstreamConnection, key: UpstreamKey, inner: asyncio.BaseProtocol) -> None:
        """Connect `inner` by TLS through a connection to the proxy with the server behind it. Errors are raised unchanged."""
        host, port, tls, _ = key
        assert tls is not None, "tunnels are for TLS"
        try:
            await self._connect(outer, host_port(host, port))
            await outer.start_tls(inner, tls, proven_name(key))
        except BaseException:
            outer.abort()
            raise

    async def _connect(self, outer: UpstreamConnection, where: str) -> None:
        outer.exchange(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{self.authorization}\r\n".encode(), bodiless=True)
        answer = await outer.answer()
        if not 200 <= answer.status < 300:
            raise ProxyRefused(f"the proxy {self.name} does not lead there: it answered {answer.status}")


def _trusting(ca: bytes) -> ssl.SSLContext:
    try:
        return client_context(ca)
    except ssl.SSLError:
        raise ValueError("there is no certificate among the proxy's authorities") from None


class ProxiedPool(UpstreamPool):
    """Connections through one proxy, with an address as for `Proxy`."""

    def __init__(self, proxy: str, *, max_idle: int = 32, idle_timeout: float = 30.0) -> None:
        super().__init__(max_idle=max_idle, idle_timeout=idle_timeout)
        self._proxy = Proxy(proxy)

    @property
    def authorization(self) -> str:
        """A Proxy-Authorization header line."""
        return self._proxy.authorization

    async def open(self, key: UpstreamKey) -> UpstreamConnection:
        host, port, tls, _ = key
        outer = await self._proxy.reach(self.protocol, tls)
        if tls is None:
            return outer
        inner = self.protocol(host_port(host, port))
        await self._proxy.tunnel(outer, key, inner)
        return inner
