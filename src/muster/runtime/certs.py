"""Serving certificates that renew themselves: made here, kept in a Secret, shared by all replicas.

Each certificate is signed by an authority made for it alone, whose key is thrown away at once: there is no signing key to
steal. The Secret's `ca.crt` lists the authorities of every certificate that may still be served, so a client that got the
bundle before the renewal or after it trusts old and new alike. Replicas that renew at the same time are sorted out by the
Secret's version: the loser takes the winner's. `inject_ca_bundle` tells the API server whom to trust; do that before serving
the new certificate.
"""

from __future__ import annotations

import base64
import copy
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.apiserver.logs import get_logger
from muster.runtime.clock import SYSTEM, Clock, sleep
from muster.runtime.credentials import CredentialError, Watched
from muster.runtime.errors import AlreadyExists, Conflict, KubeError, NotFound
from muster.runtime.patching import patch_changes, retry_on_conflict
from muster.runtime.resource import SECRETS, Object, Resource
from muster.runtime.verbs import KubeClient

log = get_logger("muster.runtime.certs")

BACKDATE = timedelta(hours=1)
"""Clocks of clients may be late."""


@dataclass(frozen=True)
class ServingPair:
    cert: bytes
    key: bytes = field(repr=False)
    ca: bytes
    """Every authority to trust, newest first."""

    @property
    def not_after(self) -> datetime:
        return x509.load_pem_x509_certificate(self.cert).not_valid_after_utc

    @property
    def not_before(self) -> datetime:
        return x509.load_pem_x509_certificate(self.cert).not_valid_before_utc


def make_pair(hosts: Sequence[str], now: datetime, lifetime: timedelta, older: bytes = b"") -> ServingPair:
    """A fresh certificate for `hosts`; authorities in `older` that are still in their time stay trusted."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{hosts[0][:40]}-ca@{int(now.timestamp())}")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])

    def builder(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATE)
            .not_valid_after(now + lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        )

    authority = (
        builder(issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    leaf = (
        builder(subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    kept = [one.public_bytes(pem) for one in _certificates(older) if one.not_valid_after_utc > now]
    return ServingPair(
        leaf.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        b"".join([authority.public_bytes(pem), *kept]),
    )


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except ValueError:
        return []


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class ServingCertificate:
    """The certificate for `hosts` in the Secret `namespace/name`; renewed when two thirds of its life are over."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        namespace: str,
        hosts: Sequence[str],
        *,
        lifetime: timedelta = timedelta(days=90),
        clock: Clock = SYSTEM,
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._hosts = list(hosts)
        self._lifetime = lifetime
        self._clock = clock

    async def ensure(self) -> ServingPair:
        """The pair to serve now, from the Secret; made or renewed first where it is missing, unusable or old."""
        while True:
            try:
                secret = await self._client.get(SECRETS, self._name, self._namespace)
            except NotFound:
                secret = None
            pair = _stored(secret)
            if pair is not None and self._good(pair):
                return pair
            fresh = make_pair(self._hosts, self._clock.now(), self._lifetime, pair.ca if pair else b"")
            try:
                await self._store(secret, fresh)
            except (Conflict, AlreadyExists):
                # Another replica was quicker: take what it made.
                continue
            log.info("made serving certificate", secret=f"{self._namespace}/{self._name}", not_after=fresh.not_after.isoformat())
            return fresh

    def _good(self, pair: ServingPair) -> bool:
        leaf = x509.load_pem_x509_certificate(pair.cert)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        old = pair.not_before + (pair.not_after - pair.not_before) * 2 / 3
        return self._clock.now() < old and set(names) == {_general_name(host) for host in self._hosts}

    async def _store(self, secret: Object | None, pair: ServingPair) -> None:
        content = {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": pair.ca}
        data = {name: base64.b64encode(value).decode() for name, value in content.items()}
        if secret is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            fresh = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}
            await self._client.create(SECRETS, fresh)
        else:
            await self._client.update(SECRETS, {**secret, "data": {**(secret.get("data") or {}), **data}})

    async def run(self, on_change: Callable[[ServingPair], Awaitable[None]], *, interval: float = 600.0) -> None:
        """Tell `on_change` the pair, now and whenever it is another one, until cancelled. What fails is tried again."""
        told: ServingPair | None = None
        while True:
            pause = interval
            try:
                pair = await self.ensure()
                if pair != told:
                    await on_change(pair)
                    told = pair
            except (KubeError, TimeoutError, OSError) as error:
                log.warning("serving certificate not looked after", secret=f"{self._namespace}/{self._name}", error=str(error))
                pause = min(30.0, interval)
            await sleep(self._clock, pause)


def _stored(secret: Object | None) -> ServingPair | None:
    data = (secret or {}).get("data") or {}
    try:
        cert, key, ca = (base64.b64decode(data[name]) for name in ("tls.crt", "tls.key", "ca.crt"))
        leaf = x509.load_pem_x509_certificate(cert)
        private = serialization.load_pem_private_key(key, None)
        leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        authorities = x509.load_pem_x509_certificates(ca)
    except (KeyError, TypeError, ValueError, x509.ExtensionNotFound):
        return None
    if private.public_key() != leaf.public_key() or all(one.subject != leaf.issuer for one in authorities):
        return None
    return ServingPair(cert, key, ca)


async def follow_files(
    cert: Path, key: Path, on_change: Callable[[bytes, bytes], Awaitable[None]], *, interval: float = 10.0, clock: Clock = SYSTEM
) -> None:
    """For certificates that somebody else renews in files: tell `on_change` now and whenever they change, until cancelled."""
    watched, told = (Watched(cert), Watched(key)), (b"", b"")
    while True:
        try:
            found = watched[0].read(), watched[1].read()
            if found != told:
                await on_change(*found)
                told = found
        except (CredentialError, OSError, ValueError) as error:
            # OSError covers ssl's: the writer may be between the two files.
            log.warning("certificate files are unusable so far", cert=str(cert), error=str(error))
        await sleep(clock, interval)


async def inject_ca_bundle(client: KubeClient, resource: Resource, name: str, ca: bytes, *, clock: Clock = SYSTEM) -> bool:
    """Put the bundle into a webhook configuration, a CustomResourceDefinition's conversion or an APIService; True if it changed."""
    bundle = base64.b64encode(ca).decode()

    async def attempt() -> bool:
        current = await client.get(resource, name)
        wanted = copy.deepcopy(current)
        for place in _bundle_places(wanted):
            place["caBundle"] = bundle
        return await patch_changes(client, resource, current, wanted, optimistic=True) is not None

    return await retry_on_conflict(attempt, clock=clock)


def _bundle_places(obj: Object) -> list[dict[str, Any]]:
    if obj["kind"] == "APIService":
        return [obj["spec"]]
    if obj["kind"] == "CustomResourceDefinition":
        webhook = (obj["spec"].get("conversion") or {}).get("webhook") or {}
        return [webhook["clientConfig"]] if "clientConfig" in webhook else []
    return [webhook["clientConfig"] for webhook in obj.get("webhooks") or ()]
