"""Self-renewing serving certificates: created here, stored in a Secret, shared by all replicas.

Each certificate is signed by a CA made for it alone, whose key is discarded at once, so no signing key can be stolen. The Secret's
`ca.crt` has the CAs of every certificate that may still be served, so clients with the bundle from before or after a renewal trust
both certificates. If replicas renew at the same time, the resourceVersion of the Secret decides: the loser uses the winner's.
`inject_ca_bundle` writes the CA into the API server's configuration objects; this must be done before the new certificate is
served.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from muster.kube.certificates import SERVER_AUTH, CertificateAuthority, KeyPair, general_name
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SECRETS
from muster.runtime.client.credentials import CredentialError, ReloadedFile
from muster.runtime.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from muster.runtime.client.patches import patch_changes, retry_on_conflict

log = get_logger("muster.runtime.webhook.certificates")


@dataclass(frozen=True)
class ServingPair:
    cert: bytes
    key: bytes = field(repr=False)
    ca: bytes
    """Every CA to trust, newest first."""

    @property
    def not_after(self) -> datetime:
        return x509.load_pem_x509_certificate(self.cert).not_valid_after_utc

    @property
    def not_before(self) -> datetime:
        return x509.load_pem_x509_certificate(self.cert).not_valid_before_utc


def make_pair(hosts: Sequence[str], now: datetime, lifetime: timedelta, older: bytes = b"") -> ServingPair:
    """A new certificate for `hosts`; CAs in `older` that are still valid stay trusted."""
    authority = CertificateAuthority.create(f"{hosts[0][:40]}-ca@{int(now.timestamp())}", now, lifetime, path_length=0)
    pair = authority.issue(hosts[0][:64], now, lifetime, usages=(SERVER_AUTH,), hosts=hosts)
    kept = [certificate.public_bytes(Encoding.PEM) for certificate in _certificates(older) if certificate.not_valid_after_utc > now]
    return ServingPair(pair.certificate, pair.key, b"".join([authority.pem, *kept]))


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except ValueError:
        return []


class ServingCertificate:
    """The certificate for `hosts` in the Secret `namespace/name`; renewed after two thirds of its lifetime."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        namespace: str,
        hosts: Sequence[str],
        *,
        lifetime: timedelta = timedelta(days=90),
        clock: Clock = SYSTEM,
        former: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        """`former` returns the CAs of a certificate that another program has stored in the Secret: they stay trusted, since it may
        still be served."""
        self._client = client
        self._name = name
        self._namespace = namespace
        self._hosts = list(hosts)
        self._lifetime = lifetime
        self._clock = clock
        self._former = former

    async def ensure(self, trusted: Callable[[ServingPair], Awaitable[None]] | None = None) -> ServingPair:
        """The pair to serve now, from the Secret; first created or renewed if it is missing, invalid or old.

        `trusted` is called with a new pair before it is stored in the Secret, from where other replicas may serve it.
        """
        while True:
            try:
                secret = await self._client.get(SECRETS, self._name, self._namespace)
            except NotFound:
                secret = None
            pair = _stored(secret)
            if pair is not None and self._good(pair):
                return pair
            older = pair.ca if pair else b""
            if secret is not None and pair is None and self._former is not None:
                older = await self._former()
            fresh = make_pair(self._hosts, self._clock.now(), self._lifetime, older)
            if trusted is not None:
                await trusted(fresh)
            try:
                await self._store(secret, fresh)
            except (Conflict, AlreadyExists):
                # Another replica was faster: use its pair.
                continue
            log.info("made serving certificate", secret=f"{self._namespace}/{self._name}", not_after=fresh.not_after.isoformat())
            return fresh

    def _good(self, pair: ServingPair) -> bool:
        leaf = x509.load_pem_x509_certificate(pair.cert)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        old = pair.not_before + (pair.not_after - pair.not_before) * 2 / 3
        return self._clock.now() < old and set(names) == {general_name(host) for host in self._hosts}

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
        """Call `on_change` with the pair, now and whenever it changes, until cancelled. Failures are retried."""
        reported: ServingPair | None = None
        while True:
            pause = interval
            try:
                pair = await self.ensure()
                if pair != reported:
                    await on_change(pair)
                    reported = pair
            except (KubeError, TimeoutError, OSError) as error:
                log.warning("serving certificate not renewed", secret=f"{self._namespace}/{self._name}", error=str(error))
                pause = min(30.0, interval)
            await sleep(self._clock, pause)


def _stored(secret: Object | None) -> ServingPair | None:
    data = (secret or {}).get("data") or {}
    try:
        cert, key, ca = (base64.b64decode(data[name]) for name in ("tls.crt", "tls.key", "ca.crt"))
        leaf = x509.load_pem_x509_certificate(cert)
        leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        authorities = x509.load_pem_x509_certificates(ca)
    except (KeyError, TypeError, ValueError, x509.ExtensionNotFound):
        return None
    if not KeyPair(cert, key).matches() or all(authority.subject != leaf.issuer for authority in authorities):
        return None
    return ServingPair(cert, key, ca)


async def follow_files(
    cert: Path, key: Path, on_change: Callable[[bytes, bytes], Awaitable[None]], *, interval: float = 10.0, clock: Clock = SYSTEM
) -> None:
    """For certificates that another program renews in files: call `on_change` now and whenever they change, until cancelled."""
    watched, reported = (ReloadedFile(cert), ReloadedFile(key)), (b"", b"")
    while True:
        try:
            found = watched[0].read(), watched[1].read()
            if found != reported:
                await on_change(*found)
                reported = found
        except (CredentialError, OSError, ValueError) as error:
            # OSError includes ssl's errors: the two files may be of different pairs for a moment.
            log.warning("certificate files are unusable so far", cert=str(cert), error=str(error))
        await sleep(clock, interval)


async def inject_ca_bundle(client: KubeClient, resource: GVR, name: str, ca: bytes, *, clock: Clock = SYSTEM) -> bool:
    """Write the CA bundle into a webhook configuration, a CustomResourceDefinition's conversion or an APIService; True if it
    changed."""
    bundle = base64.b64encode(ca).decode()

    async def attempt() -> bool:
        current = await client.get(resource, name)
        wanted = copy.deepcopy(current)
        for client_config in _client_configs(wanted):
            client_config["caBundle"] = bundle
        return await patch_changes(client, resource, current, wanted, optimistic=True) is not None

    return await retry_on_conflict(attempt, clock=clock)


def _client_configs(obj: Object) -> list[dict[str, Any]]:
    if obj["kind"] == "APIService":
        return [obj["spec"]]
    if obj["kind"] == "CustomResourceDefinition":
        webhook = (obj["spec"].get("conversion") or {}).get("webhook") or {}
        return [webhook["clientConfig"]] if "clientConfig" in webhook else []
    return [webhook["clientConfig"] for webhook in obj.get("webhooks") or ()]
