"""The server's TLS context from files that are renewed: its certificate and key, and the CAs of client certificates.

Files are read again at intervals. When their content has changed, new connections use the new certificate and CAs, and `trusts`
uses the new CAs: a connection with a certificate of a removed CA is no longer authenticated. If the CA of the server's own
certificate is also a client CA, as on hubs with one CA for both, it is sent too: joining agents know the CA by the hash of its key,
and must see it for that. Invalid content (half-written files, a key that does not match) is logged, and the former content stays in
use.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from muster.http.tls import HTTP_2, server_context
from muster.kube.certificates import has_issued
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.confinement import read, shown
from muster.machinery.logs import get_logger
from muster.transport.server.config import ConfigError, GrpcServerConfig

log = get_logger("muster.transport.server")

MAX_WATCH_INTERVAL: Final = 10.0
"""Seconds; a shorter configured interval is used."""


@dataclass(frozen=True)
class TlsFiles:
    """The content of the files."""

    cert: bytes
    key: bytes = field(repr=False)
    client_cas: bytes


class ServerTls:
    """`load`, then `run` until cancelled."""

    def __init__(self, config: GrpcServerConfig, path: Callable[[str], Path] = Path, *, clock: Clock = SYSTEM) -> None:
        """`path` maps a configured path to its location."""
        self._config = config
        self._paths = [path(name) for name in (config.tls_cert_file, config.tls_key_file, config.client_ca_file)]
        self._clock = clock
        self._used: TlsFiles | None = None
        self._authorities: frozenset[bytes] = frozenset()

    def trusts(self, authority: bytes) -> bool:
        """Whether a CA (DER) is currently in the file."""
        return authority in self._authorities

    async def load(self) -> ssl.SSLContext:
        """Raises OSError for files that cannot be read, and ConfigError for invalid content."""
        files = await asyncio.to_thread(self._read)
        context = await asyncio.to_thread(self._context, files)
        self._authorities = _authorities(files.client_cas)
        self._used = files
        return context

    async def run(self, replace: Callable[[ssl.SSLContext], None]) -> None:
        """Call `replace` whenever the files have changed."""
        while True:
            await sleep(self._clock, min(self._config.cert_watch_interval, MAX_WATCH_INTERVAL))
            try:
                if await asyncio.to_thread(self._read) != self._used:
                    replace(await self.load())
                    log.info("TLS files reloaded", cert=shown(self._paths[0]), client_ca=shown(self._paths[2]))
            except (OSError, ConfigError) as error:
                log.warning("TLS files are unusable so far", error=str(error))

    def _read(self) -> TlsFiles:
        return TlsFiles(*(read(path) for path in self._paths))

    def _context(self, files: TlsFiles) -> ssl.SSLContext:
        config = self._config
        try:
            context = server_context(with_issuers(files.cert, files.client_cas), files.key, files.client_cas, alpn=HTTP_2)
            context.minimum_version, context.maximum_version = config.tls_min_version, config.tls_max_version
            if config.cipher_suites:
                context.set_ciphers(":".join(config.cipher_suites))
        except (ssl.SSLError, ValueError) as error:
            names = ", ".join(str(shown(path)) for path in self._paths)
            raise ConfigError(f"{names}: cannot be used for TLS: {error}; give PEM files, and the key of the certificate") from None
        return context


def with_issuers(chain: bytes, authorities: bytes) -> bytes:
    """A chain (PEM), followed by those of the CAs that have signed one of its certificates. Raises ValueError."""
    shown = x509.load_pem_x509_certificates(chain)
    signed = [
        load_pem_x509_certificate
        for load_pem_x509_certificate in x509.load_pem_x509_certificates(authorities)
        if load_pem_x509_certificate not in shown and any(has_issued(load_pem_x509_certificate, other) for other in shown)
    ]
    return b"\n".join((chain.rstrip(), *(one.public_bytes(Encoding.PEM) for one in signed)))


def _authorities(pem: bytes) -> frozenset[bytes]:
    """Raises ConfigError."""
    try:
        return frozenset(
            load_pem_x509_certificate.public_bytes(Encoding.DER)
            for load_pem_x509_certificate in x509.load_pem_x509_certificates(pem)
        )
    except ValueError as error:
        raise ConfigError(f"client_ca_file: cannot be read: {error}") from None
