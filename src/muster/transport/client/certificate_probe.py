"""What a hub's gRPC server shows to anybody who dials: its certificates, before there is a credential to send.

A connection is made as agents make theirs, through the same proxy and up to the server's first word of HTTP/2, and closed. Nothing
is sent on it. Without an authority to judge by, whoever answers is heard: what comes of that proves nothing by itself.
"""

from __future__ import annotations

import ssl
from typing import Final

from cryptography import x509

from muster.http.http2.client import connect
from muster.http.tls import HTTP_2, client_context
from muster.transport.client.config import NO_PROXY, ProxySettings, host_and_port
from muster.transport.client.proxies import find_proxy

PROBE_TIMEOUT: Final = 10.0


async def presented_certificates(
    address: str, ca: bytes | None = None, *, proxy: ProxySettings = NO_PROXY, timeout: float = PROBE_TIMEOUT
) -> list[x509.Certificate]:
    """The server's own certificate first; with authorities (PEM), only if these vouch for it and for the address. `proxy` is what
    agents are told of one; else it is the environment's.

    Raises UpstreamError, and ValueError for an address that leads nowhere or authorities that are none."""
    host, port = host_and_port(address)
    try:
        tls = client_context(ca, alpn=HTTP_2)
    except ssl.SSLError:
        raise ValueError("there is no certificate among the authorities") from None
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ca is None:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    connection = await connect((host, port, tls, None), timeout=timeout, proxy=find_proxy(host, port, proxy))
    try:
        return [x509.load_der_x509_certificate(one) for one in connection.presented]
    finally:
        connection.abort()
