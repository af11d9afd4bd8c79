"""TLS contexts for clusters: trusted CAs and the gateway's client certificate.

A context belongs to the data it was created from. Connections are pooled by context, so with a new context for every request no
connection would ever be reused. Creating one reads files and parses certificates, which is done in a thread. Clusters without CAs
and client certificate share a single context with the system's CAs, because loading those is expensive.
"""

from __future__ import annotations

import asyncio
import ssl

from muster.gateway.relay.errors import ClusterError
from muster.gateway.target import CREDENTIAL_UNUSABLE, ENDPOINT_UNUSABLE, ClientCertificate, Credential, Problem, Trust
from muster.http.tls import HTTP_1_1, client_context, load_chain


class TlsContexts:
    def __init__(self) -> None:
        self._system: asyncio.Task[ssl.SSLContext] | None = None

    async def make(self, trust: Trust, credential: Credential | None) -> ssl.SSLContext:
        """Raises ClusterError."""
        if trust.authorities or trust.insecure or isinstance(credential, ClientCertificate):
            return await asyncio.to_thread(make_context, trust, credential)
        if self._system is None:
            self._system = asyncio.create_task(asyncio.to_thread(make_context, Trust(), None))
        return await asyncio.shield(self._system)


def make_context(trust: Trust, credential: Credential | None) -> ssl.SSLContext:
    """Raises ClusterError."""
    try:
        context = client_context(trust.authorities or None, alpn=HTTP_1_1)
    except (ssl.SSLError, ValueError):
        text = "the cluster's authority (caBundle, or ca.crt of its Secret) is not a PEM certificate"
        raise ClusterError(Problem(ENDPOINT_UNUSABLE, text)) from None
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if isinstance(credential, ClientCertificate):
        _load_certificate(context, credential)
    return context


def _load_certificate(context: ssl.SSLContext, credential: ClientCertificate) -> None:
    if b"ENCRYPTED" in credential.key:
        # OpenSSL would prompt for the passphrase on the terminal.
        raise ClusterError(Problem(CREDENTIAL_UNUSABLE, "tls.key is encrypted: put the key into the Secret without a passphrase"))
    try:
        load_chain(context, credential.certificate, credential.key)
    except (ssl.SSLError, ValueError):
        text = "tls.crt and tls.key are not a PEM certificate with its private key"
        raise ClusterError(Problem(CREDENTIAL_UNUSABLE, text)) from None
