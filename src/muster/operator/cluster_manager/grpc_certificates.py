"""The certificates of a hub's gRPC server: a long-lived CA, and the server certificate that it signs.

The CA's Secret has OCM's name and keys: with `tls.crt` and `tls.key` the controllers sign agents' certificates, and `ca.crt` has
every CA that may still have valid certificates, newest first. Webhook configurations get a changed bundle at once, but agents keep
the bundle with which they joined. So the CA is valid for years, and after two thirds of its lifetime it cross-signs a successor
(`vouched.crt`). The server sends that together with its own certificate: clients that know only the old CA trust the server until
that one expires, and the bundle has both meanwhile. A new CA is published before it is stored, hence before it signs anything. A
CA that the administrator stored is used unchanged.

The server's certificate is replaced when it is old, when the server's names change, and when the CA changes.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from muster.kube.certificates import SERVER_AUTH, CertificateAuthority, KeyPair, general_name, load_signing_key
from muster.machinery.clock import Clock
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.registration.names import GRPC_SIGNER_SECRET
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, NotFound
from muster.runtime.client.builtin import SECRETS

log = get_logger("muster.operator.grpc_certificates")

SERVING_SECRET: Final = "grpc-server-serving-cert"
GRPC_SECRETS: Final = (GRPC_SIGNER_SECRET, SERVING_SECRET)
SERVING_LIFETIME: Final = timedelta(days=90)

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
VOUCHED: Final = "vouched.crt"

Contents = Mapping[str, bytes]
Trust = Callable[[bytes], Awaitable[None]]
"""Called with a bundle before anything is signed by a CA that is new in it."""


@dataclass(frozen=True)
class HubAuthority:
    authority: CertificateAuthority = field(repr=False)
    bundle: bytes
    """Every CA to trust, newest first."""
    vouched: bytes = b""
    """Its certificate, signed by its predecessor."""

    @property
    def renewal(self) -> datetime:
        return _renewal(self.authority.certificate)

    def contents(self) -> Contents:
        pair = self.authority.pair()
        return {CERTIFICATE: pair.certificate, KEY: pair.key, BUNDLE: self.bundle, VOUCHED: self.vouched}


async def ensure_authority(client: KubeClient, namespace: str, clock: Clock, trust: Trust) -> HubAuthority:
    """The CA in the Secret; created or succeeded first if it is missing, invalid or old. Raises KubeError."""
    while True:
        secret = await _secret(client, GRPC_SIGNER_SECRET, namespace)
        contents, now = _contents(secret), clock.now()
        found = _stored(contents, now)
        wanted = _successor(found, contents, now) if found is None or now >= found.renewal else found
        await trust(wanted.bundle)
        if wanted is found and _certificates(contents.get(BUNDLE, b"")) == _certificates(found.bundle):
            return found
        if await _store(client, GRPC_SIGNER_SECRET, namespace, secret, wanted.contents()):
            log.info("stored authority of gRPC agents", namespace=namespace, renewal=wanted.renewal.isoformat())
            return wanted


async def ensure_serving(client: KubeClient, namespace: str, hosts: Sequence[str], signer: HubAuthority, clock: Clock) -> datetime:
    """Ensure the server's certificate in its Secret; returns when it must be replaced. Raises KubeError."""
    while True:
        secret = await _secret(client, SERVING_SECRET, namespace)
        contents, now = _contents(secret), clock.now()
        leaf = _serving(contents, hosts, signer, now)
        if leaf is not None:
            return _renewal(leaf)
        pair = signer.authority.issue(hosts[0][:64], now, SERVING_LIFETIME, usages=(SERVER_AUTH,), hosts=hosts)
        fresh = {CERTIFICATE: pair.certificate + signer.vouched, KEY: pair.key}
        if await _store(client, SERVING_SECRET, namespace, secret, fresh):
            log.info("stored serving certificate of the gRPC server", namespace=namespace, hosts=list(hosts))
            return _renewal(x509.load_pem_x509_certificate(pair.certificate))


def _stored(contents: Contents, now: datetime) -> HubAuthority | None:
    """None if it cannot sign, or can no longer."""
    certificate, key = contents.get(CERTIFICATE, b""), contents.get(KEY, b"")
    if not KeyPair(certificate, key).matches():
        return None
    try:
        authority = CertificateAuthority(x509.load_pem_x509_certificate(certificate), load_signing_key(key))
        constraints = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return None
    if not constraints.ca or authority.certificate.not_valid_after_utc <= now:
        return None
    return HubAuthority(authority, _bundle(authority, contents.get(BUNDLE, b""), now), contents.get(VOUCHED, b""))


def _successor(old: HubAuthority | None, contents: Contents, now: datetime) -> HubAuthority:
    authority = CertificateAuthority.create(f"open-cluster-management-grpc@{int(now.timestamp())}", now)
    if old is None:
        # Certificates that were signed before the key was lost are still valid.
        return HubAuthority(authority, _bundle(authority, contents.get(BUNDLE, b""), now))
    return HubAuthority(authority, _bundle(authority, old.bundle, now), old.authority.vouch(authority))


def _bundle(authority: CertificateAuthority, others: bytes, now: datetime) -> bytes:
    """A CA, and those of the others that are still valid."""
    kept = (
        certificate
        for certificate in _certificates(others)
        if certificate != authority.certificate and certificate.not_valid_after_utc > now
    )
    return b"".join((authority.pem, *(one.public_bytes(Encoding.PEM) for one in kept)))


def _serving(contents: Contents, hosts: Sequence[str], signer: HubAuthority, now: datetime) -> x509.Certificate | None:
    """The server's certificate, if it need not be replaced."""
    chain = _certificates(contents.get(CERTIFICATE, b""))
    if not chain or chain[1:] != _certificates(signer.vouched):
        return None
    leaf = chain[0]
    if not KeyPair(contents[CERTIFICATE], contents.get(KEY, b"")).matches() or not signer.authority.signed(leaf):
        return None
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return None
    return leaf if now < _renewal(leaf) and set(names) == {general_name(host) for host in hosts} else None


def _renewal(certificate: x509.Certificate) -> datetime:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except ValueError:
        return []


async def _secret(client: KubeClient, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(SECRETS, name, namespace)
    except NotFound:
        return None


def _contents(secret: Object | None) -> Contents:
    """Unreadable contents count as missing, and are written again."""
    found = {}
    for key, value in ((secret or {}).get("data") or {}).items():
        try:
            found[key] = base64.b64decode(value)
        except (ValueError, TypeError):
            continue
    return found


async def _store(client: KubeClient, name: str, namespace: str, secret: Object | None, contents: Contents) -> bool:
    """False if another client has written it first."""
    data = {key: base64.b64encode(value).decode() for key, value in contents.items()}
    try:
        if secret is None:
            metadata = {"name": name, "namespace": namespace}
            fresh = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}
            await client.create(SECRETS, fresh)
        else:
            await client.update(SECRETS, {**secret, "data": {**(secret.get("data") or {}), **data}})
    except (Conflict, AlreadyExists):
        return False
    return True
