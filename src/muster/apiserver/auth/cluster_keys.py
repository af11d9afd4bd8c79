"""Each logical cluster's own keys: the client CA, the front-proxy CA and the service-account signing key.

They are made on first use and kept in the store like any other row, so that they are as durable as the data they protect, are
shared by servers on one database, and vanish with the cluster. They live under a resource name no request path can reach.
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
"""What the names of a cluster's authorities end in."""


class ClusterKeys:
    """The secrets of one cluster, parsed when first needed."""

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

    def made_of(self, entry: Entry) -> bool:
        return bool(self._raw == orjson.loads(entry.value))

    @property
    def incarnation(self) -> str:
        """What tells this cluster from earlier and later ones of its name; empty for one made before this was kept."""
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
    """Whose authority has this name; only the authority's key proves that it is the one."""
    for end in (_CLIENT_CA, _PROXY_CA):
        if common_name.endswith(end):
            return common_name.removesuffix(end)
    return None


class ClusterKeyStore:
    """Reads and makes the keys of one cluster."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._keys: ClusterKeys | None = None
        self._making = asyncio.Lock()

    def existing(self) -> ClusterKeys | None:
        """The keys if they were made before; never makes any."""
        if self._keys is None:
            entry = self._store.get(self._cluster, _RESOURCE, _KEY)
            if entry is not None:
                self._keys = _parsed(entry)
        return self._keys

    def is_current(self) -> bool:
        """Whether the store still has the keys that were read or made here; a cluster made anew under the name has others."""
        entry = self._store.get(self._cluster, _RESOURCE, _KEY)
        return entry is not None and self._keys is not None and self._keys.made_of(entry)

    def subscribe(self, on_lost: Callable[[], None]) -> Subscription:
        """Hear when the cluster is dropped, by this server or another on the same database, or when events were missed."""
        return self._store.subscribe(self._cluster, _RESOURCE, None, _unchanging, on_lost)

    async def keys(self, now: datetime) -> ClusterKeys:
        async with self._making:
            found = self.existing()
            if found is None:
                raw = orjson.dumps(ClusterKeys.create(self._cluster, now))
                entry: Entry | None
                try:
                    entry = await self._store.commit(self._cluster, _RESOURCE, _KEY, lambda revision: raw, ABSENT)
                except Conflict:  # another server on the same database was first
                    await self._store.synced()
                    entry = self._store.get(self._cluster, _RESOURCE, _KEY)
                assert entry is not None
                found = self._keys = _parsed(entry)
        return found


def _unchanging(events: Sequence[Event]) -> None:
    """Keys are written once."""


def _parsed(entry: Entry) -> ClusterKeys:
    return ClusterKeys(orjson.loads(entry.value))
