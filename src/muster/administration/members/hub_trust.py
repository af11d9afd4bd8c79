"""Authenticates the hub before a token is sent to it.

The hub's CA comes, in this order, from the administrator's file; from the hub's public cluster-info, if its key has one of the
hashes in the join command; from the system's CAs, if they verify the hub; from the cluster-info, if it is signed with the given
bootstrap token, as kubeadm does. The cluster-info is read anonymously over an unverified connection, so nothing secret is sent for
it, and nothing in it is trusted without one of these proofs. Only with an explicit flag is the CA used without proof, and the token
possibly sent to get it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from muster.administration.errors import AdministrationError, Refused
from muster.administration.hubs import CLUSTER_INFO, PUBLIC_NAMESPACE, HubAddress
from muster.administration.progress import SILENT, Progress
from muster.kube import yaml
from muster.kube.certificates import fingerprint
from muster.machinery.objects import Object
from muster.runtime.client import (
    AuthInfo,
    ClientConfig,
    Forbidden,
    HttpClient,
    KubeClient,
    NotFound,
    StatusError,
    Unauthorized,
    Unreachable,
    Untrusted,
)
from muster.runtime.client.builtin import CONFIG_MAPS

ROOT_CA: Final = "kube-root-ca.crt"
SIGNATURE_PREFIX: Final = "jws-kubeconfig-"
WITHIN: Final = 10.0
"""Seconds for one request to the hub."""
PROVE: Final = (
    "take --hub-ca-hash from the join command that init or get token printed, or give the authority with --ca-file; "
    "to skip the verification, give --insecure-skip-ca-verification"
)
HASH_FLAG: Final = "--hub-ca-hash"
_BOOTSTRAP_TOKEN: Final = re.compile(r"(?P<id>[a-z0-9]{6})\.(?P<secret>[a-z0-9]{16})")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")

Connect = Callable[[ClientConfig], KubeClient]


def connect_by_http(config: ClientConfig) -> KubeClient:
    return HttpClient(config, agent="clusteradm", timeout=WITHIN)


@dataclass(frozen=True)
class HubTrust:
    """The claimed address of the hub, and what proves it."""

    server: str
    ca: bytes = field(default=b"", repr=False)
    """Content of a PEM file."""
    hashes: tuple[str, ...] = ()
    """`sha256:<hex>` hashes of the CA's public key."""
    unverified: bool = False
    """Trust the hub without proof."""
    proxy_url: str = ""
    proxy_ca: bytes = field(default=b"", repr=False)


def check(trust: HubTrust) -> None:
    """Raises AdministrationError for invalid settings."""
    if not trust.server:
        raise AdministrationError("--hub-apiserver: hub-server is missing", "give the hub's https URL")
    parts = urlsplit(trust.server)
    if parts.scheme != "https" or not parts.hostname:
        raise AdministrationError(f"--hub-apiserver: {trust.server!r} is not an https URL", "a token is not sent in the clear")
    check_hashes(trust.hashes, HASH_FLAG)
    if trust.ca and not certificates_in(trust.ca):
        raise AdministrationError("--ca-file: there is no certificate in it", "expected PEM")
    check_proxy(trust.proxy_url, trust.proxy_ca)


def check_proxy(url: str, ca: bytes) -> None:
    """Raises AdministrationError for an invalid proxy URL or CA."""
    if ca and not certificates_in(ca):
        raise AdministrationError("--proxy-ca-file: there is no certificate in it", "expected PEM")
    proxy = urlsplit(url)
    if url and (proxy.scheme not in ("http", "https") or not proxy.hostname):
        raise AdministrationError(f"--proxy-url: {url!r} is not an http or https URL")


def check_hashes(hashes: Sequence[str], flag: str) -> None:
    """Raises AdministrationError for an invalid hash of a key."""
    for one in hashes:
        if not _HASH.fullmatch(one.lower()):
            raise AdministrationError(f"{flag}: {one!r} is not sha256:<64 hexadecimal digits>")


async def find_hub(trust: HubTrust, token: str, progress: Progress = SILENT, connect: Connect = connect_by_http) -> HubAddress:
    """The hub, with an authenticated CA. Raises AdministrationError and the client's errors."""
    check(trust)
    try:
        ca = await _Finder(trust, token, progress, connect).authority()
    except Unreachable as error:
        raise AdministrationError(f"--hub-apiserver: {error}", "can the hub be reached from here? --proxy-url may help") from None
    if trust.proxy_ca and not ca:
        raise AdministrationError("--proxy-ca-file: only together with an authority of the hub", "give that with --ca-file")
    return HubAddress(trust.server, ca + trust.proxy_ca)


async def published_server(client: KubeClient, flag: str) -> str:
    """The address that the cluster publishes for itself, which may be reachable for agents only. Raises AdministrationError."""
    info = await _public(client, CLUSTER_INFO)
    server = str(_cluster_in(info).get("server") or "") if info is not None else ""
    if urlsplit(server).scheme != "https":
        raise AdministrationError(f"{flag}: ConfigMap {PUBLIC_NAMESPACE}/{CLUSTER_INFO} of {client.server} has no https address")
    return server


@dataclass(frozen=True)
class _Finder:
    trust: HubTrust
    token: str = field(repr=False)
    progress: Progress
    connect: Connect

    async def authority(self) -> bytes:
        """PEM; empty if the system's CAs verify the hub."""
        trust = self.trust
        if trust.ca:
            return pinned(trust.ca, trust.hashes, "--ca-file") if trust.hashes else trust.ca
        if not trust.hashes and not trust.unverified and await self._system_vouches():
            return b""
        info = await self._cluster_info()
        ca = _authority_in(info) if info is not None else b""
        if trust.hashes:
            if not ca:
                raise AdministrationError(
                    f"the hub does not publish its CA in ConfigMap {PUBLIC_NAMESPACE}/{CLUSTER_INFO}", "give it with --ca-file"
                )
            return pinned(ca, trust.hashes, f"the hub {trust.server}")
        if trust.unverified:
            self.progress.warn(f"the server at {trust.server} is not verified, and receives the token")
            return ca or await self._authority_for_token()
        if ca and info is not None and is_signed(info, self.token):
            return ca
        raise Refused(
            f"nothing proves that {trust.server} is the hub: no authority of this system vouches for it, and no hash is given",
            PROVE,
        )

    @asynccontextmanager
    async def _client(self, config: ClientConfig) -> AsyncIterator[KubeClient]:
        client = self.connect(config)
        try:
            yield client
        finally:
            await client.close()

    async def _system_vouches(self) -> bool:
        try:
            async with self._client(ClientConfig(self.trust.server, proxy_url=self.trust.proxy_url)) as client:
                await client.server_version()
        except Untrusted:
            return False
        except StatusError:
            return True
        return True

    def _blind(self, token: str = "") -> ClientConfig:
        identity = AuthInfo(token=token)
        return ClientConfig(self.trust.server, insecure=True, proxy_url=self.trust.proxy_url, identity=identity)

    async def _cluster_info(self) -> Object | None:
        """The cluster-info, read anonymously; None if it is missing or not public."""
        async with self._client(self._blind()) as client:
            return await _public(client, CLUSTER_INFO)

    async def _authority_for_token(self) -> bytes:
        """The CA that the hub shows to holders of the token: the caller accepts that the hub is not authenticated."""
        async with self._client(self._blind(self.token)) as client:
            info = await _public(client, CLUSTER_INFO)
            if info is not None and (ca := _authority_in(info)):
                return ca
            root = await _public(client, ROOT_CA)
        ca = str(((root or {}).get("data") or {}).get("ca.crt") or "").encode()
        if not certificates_in(ca):
            raise AdministrationError(f"the hub {self.trust.server} publishes no CA", "give it with --ca-file")
        return ca


async def _public(client: KubeClient, name: str) -> Object | None:
    try:
        return await client.get(CONFIG_MAPS, name, PUBLIC_NAMESPACE)
    except (NotFound, Forbidden, Unauthorized):
        return None


def _cluster_in(info: Object) -> dict[str, Any]:
    """The only cluster in the cluster-info's kubeconfig; empty if there is not exactly one."""
    try:
        document = yaml.load(str((info.get("data") or {}).get("kubeconfig") or ""))
        found = document["clusters"][0]["cluster"]
    except (yaml.YAMLError, KeyError, IndexError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _authority_in(info: Object) -> bytes:
    try:
        pem = base64.b64decode(str(_cluster_in(info).get("certificate-authority-data") or ""), validate=True)
    except (binascii.Error, ValueError):
        return b""
    return pem if certificates_in(pem) else b""


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def pinned(ca: bytes, hashes: Sequence[str], source: str, flag: str = HASH_FLAG) -> bytes:
    """The certificates whose keys have one of the hashes, and no others. Raises Refused if there is none."""
    wanted = {one.lower() for one in hashes}
    proved = [one for one in certificates_in(ca) if fingerprint(one.public_key()) in wanted]
    if not proved:
        raise Refused(
            f"{flag}: no authority of {source} has this hash: it is another hub, or a proxy that intercepts TLS",
            "get a fresh join command from the hub's administrator",
        )
    return b"".join(one.public_bytes(Encoding.PEM) for one in proved)


def is_signed(info: Object, token: str) -> bool:
    """Whether a cluster-info is signed with this bootstrap token, as by Kubernetes' bootstrap signer."""
    parts = _BOOTSTRAP_TOKEN.fullmatch(token)
    data = info.get("data") or {}
    if parts is None or "kubeconfig" not in data:
        return False
    header, _, rest = str(data.get(SIGNATURE_PREFIX + parts["id"]) or "").partition(".")
    payload, _, signature = rest.partition(".")
    try:
        if orjson.loads(_decoded(header)).get("alg") != "HS256" or payload:
            return False
        given = _decoded(signature)
    except (ValueError, AttributeError):
        return False
    signed = f"{header}.{_encoded(str(data['kubeconfig']).encode())}"
    return hmac.compare_digest(hmac.new(parts["secret"].encode(), signed.encode(), hashlib.sha256).digest(), given)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
