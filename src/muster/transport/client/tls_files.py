"""TLS to a gRPC server with a client certificate from files, which are read again when they change.

While files are being replaced (certificate and key of different pairs), the last valid context stays in use.
"""

from __future__ import annotations

import ssl

from muster.http.tls import HTTP_2, client_context, load_chain
from muster.machinery.logs import get_logger
from muster.runtime.client import CredentialError, Material, ReloadedFile

log = get_logger("muster.transport.client")

TlsMaterial = tuple[bytes | None, bytes | None, bytes | None]
"""CAs, certificate and key."""


class TlsFiles:
    """`server` is the name of the server in the log. Without `ca`, the system's CAs are used."""

    def __init__(self, server: str, ca: Material | None, cert: Material | None, key: Material | None) -> None:
        self._server = server
        self._ca = None if ca is None else ReloadedFile(ca)
        self._pair = None if cert is None or key is None else (ReloadedFile(cert), ReloadedFile(key))
        self._used: TlsMaterial | None = None
        """The material of the last valid context."""
        self._context: ssl.SSLContext | None = None

    def read(self) -> TlsMaterial:
        """Raises CredentialError."""
        cert, key = (None, None) if self._pair is None else (self._pair[0].read(), self._pair[1].read())
        return None if self._ca is None else self._ca.read(), cert, key

    def context(self) -> ssl.SSLContext:
        """The same object as long as the files are unchanged. Raises CredentialError."""
        material = self.read()
        if self._context is None or material != self._used:
            try:
                self._context, self._used = _context(*material), material
            except (ssl.SSLError, ValueError) as error:
                if self._context is None:
                    raise CredentialError(f"unusable certificate, key or CA: {error}") from None
                log.warning("new TLS material is unusable so far; keeping the old", server=self._server, error=str(error))
        return self._context


def _context(ca: bytes | None, cert: bytes | None, key: bytes | None) -> ssl.SSLContext:
    context = client_context(ca, alpn=HTTP_2)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # CAs of Kubernetes often lack the key identifiers that strict verification requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cert is not None and key is not None:
        load_chain(context, cert, key)
    return context
