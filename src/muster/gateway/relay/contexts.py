"""TLS contexts for clusters: whom the gateway believes, and the certificate that it shows.

A context belongs to what it was made of. Connections are kept by context, so one made anew for every request would mean that no
connection is ever used twice. Making one reads files and parses certificates, and happens in a thread. Where a cluster names no
authority and no certificate is shown, all clusters have the one context with the system's authorities: loading those is dear.
"""

from __future__ import annotations

import asyncio
import ssl

from muster.gateway.relay.problems import ClusterProblem
from muster.gateway.target import CREDENTIAL_UNUSABLE, ENDPOINT_UNUSABLE, ClientCertificate, Credential, Problem, Trust
from muster.http.tls import HTTP_1_1, client_context, load_chain


class Contexts:
    def __init__(self) -> None:
        self._system: asyncio.Task[ssl.SSLContext] | None = None

    async def make(self, trust: Trust, credential: Credential | None) -> ssl.SSLContext:
        """Raises ClusterProblem."""
        if trust.authorities or trust.insecure or isinstance(credential, ClientCertificate):
            return await asyncio.to_thread(make_context, trust, credential)
        if self._system is None:
            self._system = asyncio.create_task(asyncio.to_thread(make_context, Trust(), None))
        return await asyncio.shield(self._system)


def make_context(trust: Trust, credential: Credential | None) -> ssl.SSLContext:
    """Raises ClusterProblem."""
    try:
        context = client_context(trust.authorities or None, alpn=HTTP_1_1)
    except (ssl.SSLError, ValueError):
        text = "the cluster's authority (caBundle, or ca.crt of its Secret) is no PEM certificate"
        raise ClusterProblem(Problem(ENDPOINT_UNUSABLE, text)) from None
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if isinstance(credential, ClientCertificate):
        _show(context, credential)
    return context


def _show(context: ssl.SSLContext, credential: ClientCertificate) -> None:
    if b"ENCRYPTED" in credential.key:
        # OpenSSL would ask for the passphrase at the terminal.
        raise ClusterProblem(Problem(CREDENTIAL_UNUSABLE, "tls.key is encrypted: put the key into the Secret without a passphrase"))
    try:
        load_chain(context, credential.certificate, credential.key)
    except (ssl.SSLError, ValueError):
        text = "tls.crt and tls.key are no PEM certificate with its private key"
        raise ClusterProblem(Problem(CREDENTIAL_UNUSABLE, text)) from None
