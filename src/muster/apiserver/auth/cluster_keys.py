"""The keys of each logical cluster: the client CA, the front-proxy CA and the signing key for service account tokens.

They are created on first use and kept in the store, so that they are as durable as the data they protect, are shared by all servers
on one database, and are deleted with the cluster. The name of their resource cannot be reached by any request path.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime

import orjson
from cryptography.hazmat.primitives.asymmetric import ec

from muster.kube.certificates import CertificateAuthority, KeyPair, generate_key, key_pem, load_key
from muster.store.api import ABSENT, Conflict, Entry, Event, Store, Subscription

_RESOURCE = "muster.internal/keys"
_KEY = "identity"
_CLIENT_CA, _PROXY_CA = "-client-ca", "-front-proxy-ca"
"""Suffixes of the common names of a cluster's CAs."""


class ClusterKeys:
    """The keys of one cluster, parsed on first use."""

    def __init__(self, raw: dict[str, str]) -> None:
        self._raw = raw
        self._client_ca: CertificateAuthority | None = None
        self._proxy_ca: CertificateAuthority | None = None
        self._signing_key: ec.EllipticCurvePrivateKey | None = None

    @classmethod
    def create(cls, cluster: str, now: datetime) -> dict[str, str]:
        client = CertificateAuthority.create(f"{cluster}{_CLIENT_CA}", now).pair()
        proxy = CertificateAuthority.create(f"{cluster}{_PROXY_CA}", now).pair()
        return {
            "clientCert": client.certificate.decode(),
            "clientKey": client.key.decode(),
            "proxyCert": proxy.certificate.decode(),
            "proxyKey": proxy.key.decode(),
            "signingKey": key_pem(generate_key()).decode(),
            "incarnation": str(uuid.uuid4()),
        }

    def is_encoded_as(self, entry: Entry) -> bool:
        return bool(self._raw == orjson.loads(entry.value))

    @property
    def incarnation(self) -> str:
        """A UUID that distinguishes this cluster from earlier and later ones of the same name; empty for clusters that older
        versions have created."""
        return self._raw.get("incarnation", "")

    @property
    def client_ca_pem(self) -> bytes:
        return self._raw["clientCert"].encode()

    @property
    def proxy_ca_pem(self) -> bytes:
        return self._raw["proxyCert"].encode()

    @property
    def client_ca(self) -> CertificateAuthority:
        if self._client_ca is None:
            pair = KeyPair(self._raw["clientCert"].encode(), self._raw["clientKey"].encode())
            self._client_ca = CertificateAuthority.load(pair)
        return self._client_ca

    @property
    def proxy_ca(self) -> CertificateAuthority:
        if self._proxy_ca is None:
            pair = KeyPair(self._raw["proxyCert"].encode(), self._raw["proxyKey"].encode())
            self._proxy_ca = CertificateAuthority.load(pair)
        return self._proxy_ca

    @property
    def signing_key(self) -> ec.EllipticCurvePrivateKey:
        if self._signing_key is None:
            self._signing_key = load_key(self._raw["signingKey"].encode())
        return self._signing_key


def cluster_of_authority(common_name: str) -> str | None:
    """The cluster whose CA would have this common name. A name proves nothing; the signature has to be verified."""
    for end in (_CLIENT_CA, _PROXY_CA):
        if common_name.endswith(end):
            return common_name.removesuffix(end)
    return None


class ClusterKeyStore:
    """Reads and creates the keys of one cluster."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._keys: ClusterKeys | None = None
        self._creation_lock = asyncio.Lock()

    def existing(self) -> ClusterKeys | None:
        """The keys if they exist; none are created."""
        if self._keys is None:
            entry = self._store.get(self._cluster, _RESOURCE, _KEY)
            if entry is not None:
                self._keys = _parsed(entry)
        return self._keys

    def is_current(self) -> bool:
        """Whether the store still has the keys that were read or created here; a cluster created again has others."""
        entry = self._store.get(self._cluster, _RESOURCE, _KEY)
        return entry is not None and self._keys is not None and self._keys.is_encoded_as(entry)

    def subscribe(self, on_lost: Callable[[], None]) -> Subscription:
        """Call `on_lost` when the cluster is dropped, by any server on the database, or when events were missed."""
        return self._store.subscribe(self._cluster, _RESOURCE, None, _ignore_events, on_lost)

    async def keys(self, now: datetime) -> ClusterKeys:
        async with self._creation_lock:
            found = self.existing()
            if found is None:
                raw = orjson.dumps(ClusterKeys.create(self._cluster, now))
                entry: Entry | None
                try:
                    entry = await self._store.commit(self._cluster, _RESOURCE, _KEY, lambda revision: raw, ABSENT)
                except Conflict:  # another server on the same database has created them
                    await self._store.synced()
                    entry = self._store.get(self._cluster, _RESOURCE, _KEY)
                assert entry is not None
                found = self._keys = _parsed(entry)
        return found


def _ignore_events(events: Sequence[Event]) -> None:
    """Keys never change."""


def _parsed(entry: Entry) -> ClusterKeys:
    return ClusterKeys(orjson.loads(entry.value))
