"""Connections to other servers through a SOCKS5 proxy (RFC 1928, passwords by RFC 1929).

The proxy resolves the server's name, as Go's clients do for `socks5` and `socks5h` alike.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

from muster.http.happy_eyeballs import dial, is_address
from muster.http.pool import UpstreamKey, UpstreamPool, explained, proven_name
from muster.http.tunnel import ProxyRefused
from muster.http.upstream import UpstreamConnection, host_port

_VERSION: Final = 5
_NO_AUTHENTICATION: Final = 0
_PASSWORD: Final = 2
_REFUSALS: Final = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}


class SocksPool(UpstreamPool):
    """`address` is socks5://[user:password@]host[:port]."""

    def __init__(self, address: str, *, max_idle: int = 32, idle_timeout: float = 30.0) -> None:
        super().__init__(max_idle=max_idle, idle_timeout=idle_timeout)
        parts = urlsplit(address)
        self._host = parts.hostname or ""
        self._port = parts.port or 1080
        self._name = host_port(self._host, self._port)
        self._user = unquote(parts.username or "").encode()
        self._password = unquote(parts.password or "").encode()

    async def open(self, key: UpstreamKey) -> UpstreamConnection:
        host, port, tls, _ = key
        loop = asyncio.get_running_loop()
        with explained(host_port(host, port), f"the proxy {self._name}: "):
            sock = await dial(self._host, self._port)
            try:
                await self._lead(_Conversation(loop, sock), host, port)
            except BaseException:
                sock.close()
                raise
        name = proven_name(key) if tls is not None else None
        _, connection = await loop.create_connection(
            lambda: self.protocol(host_port(host, port)), sock=sock, ssl=tls, server_hostname=name
        )
        return connection

    async def _lead(self, proxy: _Conversation, host: str, port: int) -> None:
        methods = bytes([_NO_AUTHENTICATION, _PASSWORD]) if self._user else bytes([_NO_AUTHENTICATION])
        await proxy.send(bytes([_VERSION, len(methods)]) + methods)
        version, method = await proxy.receive(2)
        if version != _VERSION or method not in methods:
            raise ProxyRefused("it is no SOCKS5 proxy, or wants another proof of identity")
        if method == _PASSWORD:
            await proxy.send(b"\1" + _counted(self._user) + _counted(self._password))
            if (await proxy.receive(2))[1]:
                raise ProxyRefused("it does not accept user and password")
        await proxy.send(bytes([_VERSION, 1, 0]) + _address(host) + port.to_bytes(2, "big"))
        version, refusal, _, kind = await proxy.receive(4)
        if version != _VERSION or refusal:
            raise ProxyRefused(f"it does not lead there: {_REFUSALS.get(refusal, refusal)}")
        size = {1: 4, 4: 16}[kind] if kind in (1, 4) else (await proxy.receive(1))[0]
        await proxy.receive(size + 2)


class _Conversation:
    """Reads exact numbers of bytes from a socket that is not yet the event loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, way: socket.socket) -> None:
        self._loop = loop
        self._connection = way

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._connection, data)

    async def receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            more = await self._loop.sock_recv(self._connection, size - len(received))
            if not more:
                raise ProxyRefused("it closed the connection")
            received += more
        return received


def _counted(text: bytes) -> bytes:
    if len(text) > 255:
        raise ProxyRefused("no name and no password of a SOCKS5 proxy has more than 255 bytes")
    return bytes([len(text)]) + text


def _address(host: str) -> bytes:
    if not is_address(host):
        return b"\3" + _counted(host.encode("idna"))
    address = ip_address(host)
    return (b"\1" if isinstance(address, IPv4Address) else b"\4") + address.packed
