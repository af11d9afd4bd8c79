"""TLS for servers that request an optional client certificate, and change their certificates while serving.

kube-apiserver requests a certificate, accepts any, and answers 401 later if it does not chain to a client CA. Python's ssl verifies
inside the handshake: a client without a certificate is served, one with a certificate of another CA gets a TLS alert. Only the
validity period is checked by us (an expired certificate passes the handshake and is reported as foreign), so that a client with an
expired certificate gets 401, as from kube-apiserver, and not an alert.

Sessions are never resumed: a resumed one would keep an identity after the removal of its CA.
"""

from __future__ import annotations

import asyncio.sslproto
import ssl
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from muster.machinery.confinement import current

NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module does not name."""
TLS_BUFFER = 16 * 1024
HTTP_1_1 = "http/1.1"
HTTP_2 = "h2"
HTTP_2_OR_1 = (HTTP_2, HTTP_1_1)
"""The protocols of a server that supports both; clients that upgrade to another protocol use HTTP/1.1."""

Pem = bytes | str | Path
"""PEM text as bytes, or the path of a PEM file."""


def server_context(cert: Pem, key: Pem, client_cas: Pem | None = None, *, alpn: str | Sequence[str] = HTTP_1_1) -> ssl.SSLContext:
    """A server context: TLS 1.2+, ALPN protocols in order of preference, a client certificate is requested if `client_cas` are
    given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([alpn] if isinstance(alpn, str) else list(alpn))
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    load_chain(context, cert, key)
    if client_cas is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        # A client CA may itself be signed by one that is not trusted here: Go takes every configured one for a root.
        context.verify_flags |= ssl.VerifyFlags(NO_CHECK_TIME) | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=_text(client_cas))
    return context


def client_context(authorities: bytes | None = None, *, alpn: str | None = None) -> ssl.SSLContext:
    """A client context that trusts these CAs, else the system's; for a pod, environment variables of the machine are ignored."""
    context = _trusting(authorities)
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    return context


def _trusting(authorities: bytes | None) -> ssl.SSLContext:
    if authorities is not None or current() is None:
        return ssl.create_default_context(cadata=authorities.decode("ascii") if authorities is not None else None)
    usual = ssl.get_default_verify_paths()
    file, directory = Path(usual.openssl_cafile), Path(usual.openssl_capath)
    if not file.is_file() and not directory.is_dir():
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context(
        cafile=str(file) if file.is_file() else None, capath=str(directory) if directory.is_dir() else None
    )


def _text(pem: Pem) -> str:
    return pem.decode("ascii") if isinstance(pem, bytes) else Path(pem).read_text("ascii")


def load_chain(context: ssl.SSLContext, cert: Pem, key: Pem) -> None:
    """Load a server's or client's own certificate into a context."""
    # OpenSSL's Python binding reads a key pair from files only.
    with tempfile.TemporaryDirectory(prefix="muster-tls-") as directory:
        cert_file, key_file = Path(directory, "tls.crt"), Path(directory, "tls.key")
        cert_file.write_text(_text(cert))
        key_file.touch(mode=0o600)
        key_file.write_text(_text(key))
        context.load_cert_chain(cert_file, key_file)


class SwappableContext:
    """One listening context that hands each new handshake to the context that is current."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.listening = context
        self._current = context

    def replace(self, context: ssl.SSLContext) -> None:
        if context.verify_mode != self.listening.verify_mode:
            # OpenSSL takes the verify mode from the listening context when the connection is made.
            raise ValueError("a replaced context must ask for client certificates exactly as the first one did")
        self._current = context
        self.listening.sni_callback = self._select

    def _select(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current


class PeerCertificates(NamedTuple):
    """The certificate of a client: `verified` is an identity, `foreign` is not."""

    verified: bytes | None
    chain: tuple[bytes, ...]
    foreign: bytes | None

    @classmethod
    def of(cls, connection: ssl.SSLObject) -> PeerCertificates:
        if connection.context.verify_mode == ssl.CERT_NONE:
            return cls(None, (), None)
        leaf = connection.getpeercert(binary_form=True)
        if leaf is None:
            return cls(None, (), None)
        if not _in_its_time(leaf, connection):
            return cls(None, (), leaf)
        return cls(leaf, _verified_chain(connection) or (leaf,), None)


_validities: dict[bytes, tuple[float, float]] = {}
_KNOWN_VALIDITIES = 1024


def _in_its_time(leaf: bytes, connection: ssl.SSLObject) -> bool:
    """Cached, since clients reconnect with the same certificate, above all an API server."""
    validity = _validities.get(leaf)
    if validity is None:
        described: Any = connection.getpeercert()
        validity = ssl.cert_time_to_seconds(described["notBefore"]), ssl.cert_time_to_seconds(described["notAfter"])
        if len(_validities) >= _KNOWN_VALIDITIES:
            _validities.clear()
        _validities[leaf] = validity
    return validity[0] <= time.time() <= validity[1]


def presented_chain(connection: Any) -> tuple[bytes, ...]:
    """The peer's certificates (DER), its own first, verified or not."""
    if hasattr(connection, "get_unverified_chain"):
        return tuple(connection.get_unverified_chain())
    der = 2
    return tuple(certificate.public_bytes(der) for certificate in connection._sslobj.get_unverified_chain() or ())


def _verified_chain(connection: Any) -> tuple[bytes, ...]:
    if hasattr(connection, "get_verified_chain"):
        return tuple(connection.get_verified_chain())
    der = 2  # _ssl.ENCODING_DER; the method is public only from Python 3.13 on
    return tuple(certificate.public_bytes(der) for certificate in connection._sslobj.get_verified_chain() or ())


def shrink_tls_buffers() -> None:
    """Plain asyncio keeps a 256 KiB buffer per TLS connection; a record has 16 KiB. uvloop does not need this."""
    asyncio.sslproto.SSLProtocol.max_size = min(asyncio.sslproto.SSLProtocol.max_size, TLS_BUFFER)
