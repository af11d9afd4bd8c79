"""Connections to other servers by way of a proxy, which is asked for a tunnel (`CONNECT`) to servers that speak TLS.

The proxy itself is spoken to in the clear or by TLS, with the same trust as the servers behind it. What is to go to a server
without TLS is given to the proxy to pass on: the request's target then has to be the whole address, and an https proxy is trusted
by the system's authorities.
"""

from __future__ import annotations

import base64
import ssl
from functools import cached_property
from urllib.parse import unquote, urlsplit

from muster.http.pool import UpstreamKey, UpstreamPool, explained, proven_name
from muster.http.tls import client_context
from muster.http.upstream import UpstreamConnection, place


class ProxyRefused(OSError):
    """The proxy does not make the tunnel."""


class ProxiedPool(UpstreamPool):
    """`proxy` is an http or https address, with the user's name and password where the proxy wants them."""

    def __init__(self, proxy: str, *, max_idle: int = 32, idle_timeout: float = 30.0) -> None:
        super().__init__(max_idle=max_idle, idle_timeout=idle_timeout)
        parts = urlsplit(proxy)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self.authorization = ""
        """A header line, for the proxy's eyes."""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.authorization = f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return client_context()

    async def open(self, key: UpstreamKey) -> UpstreamConnection:
        host, port, tls, _ = key
        proxy = place(self._host, self._port)
        with explained(proxy, f"the proxy {proxy}: "):
            outer = await super().open((self._host, self._port, (tls or self._trust) if self._secure else None, None))
        if tls is None:
            return outer
        inner = self.protocol(place(host, port))
        try:
            await self._ask(outer, place(host, port))
            await outer.start_tls(inner, tls, proven_name(key))
        except BaseException:
            outer.abort()
            raise
        return inner

    async def _ask(self, outer: UpstreamConnection, where: str) -> None:
        outer.exchange(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{self.authorization}\r\n".encode(), bodiless=True)
        answer = await outer.answer()
        if not 200 <= answer.status < 300:
            raise ProxyRefused(f"the proxy {place(self._host, self._port)} does not lead there: it answered {answer.status}")
