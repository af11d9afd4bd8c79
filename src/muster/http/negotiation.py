"""The start of a connection whose protocol is chosen in the TLS handshake (ALPN, RFC 7301)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any

MakeProtocol = Callable[[], asyncio.BaseProtocol]


class Negotiation(asyncio.Protocol):
    """Passes the transport to the protocol of the chosen name; to `otherwise` if none was chosen."""

    def __init__(self, protocols: Mapping[str, MakeProtocol], otherwise: MakeProtocol) -> None:
        self._protocols = protocols
        self._otherwise = otherwise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        chosen = None if secured is None else secured.selected_alpn_protocol()
        protocol = self._protocols.get(chosen or "", self._otherwise)()
        switching: Any = transport
        switching.set_protocol(protocol)
        protocol.connection_made(transport)
