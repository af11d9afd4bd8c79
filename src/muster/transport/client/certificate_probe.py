"""The certificates that a hub's gRPC server presents, before there is a credential for it.

The connection is made like those of agents, through the same proxy, up to the server's HTTP/2 preface, and closed. Nothing is sent
on it. Without a CA, any server's certificate is returned: it proves nothing by itself.
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
    """The server's own certificate first; with CAs (PEM), only if it is signed by them and valid for the address. `proxy` is the
    agents' proxy setting; else the environment's is used.

    Raises UpstreamError, and ValueError for an invalid address or invalid CAs.
    """
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
