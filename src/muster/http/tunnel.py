"""Connections to other servers by way of a proxy, which is asked for a tunnel (`CONNECT`) to servers that speak TLS.

The proxy itself is spoken to in the clear or by TLS, with the same trust as the servers behind it, or with a trust of its own. What
is to go to a server without TLS is given to the proxy to pass on: the request's target then has to be the whole address, and an
https proxy is trusted by the system's authorities.
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
    """The proxy does not make the tunnel."""


class Proxy:
    """`address` is http or https, with the user's name and password where the proxy wants them. `ca` (PEM) vouches for the proxy
    itself; the system's authorities do where there is none. Raises ValueError for what is no authority."""

    def __init__(self, address: str, ca: bytes | None = None) -> None:
        parts = urlsplit(address)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self.name = host_port(self._host, self._port)
        self._own_trust = None if ca is None else _trusting(ca)
        self.authorization = ""
        """A header line, for the proxy's eyes."""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.authorization = f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return self._own_trust or client_context()

    async def reach(self, protocol: Callable[[str], UpstreamConnection], trust: ssl.SSLContext | None = None) -> UpstreamConnection:
        """A connection to the proxy itself, made by `protocol` for the proxy's name. Raises UpstreamError."""
        with explained(self.name, f"the proxy {self.name}: "):
            return await open_connection(
                (self._host, self._port, (trust or self._trust) if self._secure else None, None), lambda: protocol(self.name)
            )

    async def tunnel(self, outer: UpstreamConnection, key: UpstreamKey, inner: asyncio.BaseProtocol) -> None:
        """Lead `inner` by TLS through a connection to the proxy, to the server behind it. What goes wrong is raised as it comes."""
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
    """Connections by way of one proxy, whose address is as `Proxy` takes it."""

    def __init__(self, proxy: str, *, max_idle: int = 32, idle_timeout: float = 30.0) -> None:
        super().__init__(max_idle=max_idle, idle_timeout=idle_timeout)
        self._proxy = Proxy(proxy)

    @property
    def authorization(self) -> str:
        """A header line, for the proxy's eyes."""
        return self._proxy.authorization

    async def open(self, key: UpstreamKey) -> UpstreamConnection:
        host, port, tls, _ = key
        outer = await self._proxy.reach(self.protocol, tls)
        if tls is None:
            return outer
        inner = self.protocol(host_port(host, port))
        await self._proxy.tunnel(outer, key, inner)
        return inner
