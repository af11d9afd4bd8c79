"""The certificates of a hub's gRPC server: an authority that lasts, and what it signs for the server itself.

The authority's Secret has OCM's name and keys: with `tls.crt` and `tls.key` the controllers sign agents' certificates, and `ca.crt`
lists every authority in whose name somebody may still prove who he is, newest first. Callers of webhooks are told whom to trust
whenever that changes; agents keep what they were joined with. So this authority lasts for years, and when two thirds of its life
are over it vouches for a successor (`vouched.crt`). The server shows that beside its own certificate: who knows only the old
authority recognizes the server until that one ends, and the bundle has both meanwhile. A new authority is trusted before it is
stored, hence before anything is signed by it. One that somebody else put there is used as it is.

The server's certificate is replaced when it is old, when the server goes by other names, and when the authority is another one.
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
"""Is told a bundle before anything is signed in the name of what is new in it."""


@dataclass(frozen=True)
class HubAuthority:
    authority: CertificateAuthority = field(repr=False)
    bundle: bytes
    """Every authority to trust, newest first."""
    vouched: bytes = b""
    """What its predecessor says for it."""

    @property
    def renewal(self) -> datetime:
        return _renewal(self.authority.certificate)

    def contents(self) -> Contents:
        pair = self.authority.pair()
        return {CERTIFICATE: pair.certificate, KEY: pair.key, BUNDLE: self.bundle, VOUCHED: self.vouched}


async def ensure_authority(client: KubeClient, namespace: str, clock: Clock, trust: Trust) -> HubAuthority:
    """The one in the Secret; made or succeeded first where it is missing, unusable or old. Raises KubeError."""
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
    """Have the server's certificate in its Secret; gives when it will be replaced. Raises KubeError."""
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
    """None for what cannot sign, or not any more."""
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
        # What was signed before the key was lost is still good.
        return HubAuthority(authority, _bundle(authority, contents.get(BUNDLE, b""), now))
    return HubAuthority(authority, _bundle(authority, old.bundle, now), old.authority.vouch(authority))


def _bundle(authority: CertificateAuthority, others: bytes, now: datetime) -> bytes:
    """An authority and those of the others that are in their time."""
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
    """What cannot be read is not there: it is written anew."""
    found = {}
    for key, value in ((secret or {}).get("data") or {}).items():
        try:
            found[key] = base64.b64decode(value)
        except (ValueError, TypeError):
            continue
    return found


async def _store(client: KubeClient, name: str, namespace: str, secret: Object | None, contents: Contents) -> bool:
    """False when somebody else was quicker."""
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
