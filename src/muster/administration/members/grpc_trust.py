"""Authenticates the hub's gRPC server before a token is sent to it.

The CA comes, in this order, from the administrator's file; from the certificates that the server presents, if a key among them has
one of the hashes in the join command; from the ConfigMap of the hub's operator, if the hub's API server is reachable, which
`hub_trust` has authenticated by then. The server's certificates are fetched without any credential, and trusted only by their hash.
Without one of these proofs nothing is sent: the system's CAs are not used, because agents trust only the CA in their file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.serialization import Encoding

from muster.administration.errors import AdministrationError, Refused
from muster.administration.hub.authority import AUTHORITY_KEY, AUTHORITY_MAP, grpc_authority
from muster.administration.hubs import HubAddress
from muster.administration.members.hub_trust import Connect, certificates_in, check_hashes, check_proxy, connect_by_http, pinned
from muster.http.upstream import UpstreamError
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import AuthInfo, ClientConfig, Forbidden, NotFound
from muster.transport.client.certificate_probe import presented_certificates
from muster.transport.client.config import NO_PROXY, ProxySettings, host_and_port

CA_FLAG = "--grpc-ca-file"
HASH_FLAG = "--grpc-ca-hash"
PROVE = f"take {HASH_FLAG} from the join command that get token printed, or give the authority with {CA_FLAG}"


@dataclass(frozen=True)
class GrpcTrust:
    """The claimed address of the hub's gRPC server, and what proves it."""

    server: str
    ca: bytes = field(default=b"", repr=False)
    """Content of a PEM file."""
    hashes: tuple[str, ...] = ()
    """`sha256:<hex>` hashes of the CA's public key."""
    proxy: ProxySettings = NO_PROXY
    """The proxy of the connection."""

    @property
    def provable(self) -> bool:
        """Whether the server can be authenticated without the hub's API server."""
        return bool(self.ca or self.hashes)


def check(trust: GrpcTrust) -> None:
    """Raises AdministrationError for invalid settings."""
    try:
        host_and_port(trust.server)
    except ValueError as error:
        raise AdministrationError(f"--grpc-server: {trust.server!r} leads nowhere: {error}") from None
    check_hashes(trust.hashes, HASH_FLAG)
    if trust.ca and not certificates_in(trust.ca):
        raise AdministrationError(f"{CA_FLAG}: there is no certificate in it", "expected PEM")
    check_proxy(trust.proxy.url, trust.proxy.ca or b"")
    if trust.proxy.ca and not trust.proxy.url:
        raise AdministrationError("--proxy-ca-file: there is no proxy that it could vouch for", "give that with --proxy-url")


async def find_grpc_server(
    trust: GrpcTrust, token: str, api: HubAddress | None = None, connect: Connect = connect_by_http
) -> HubAddress:
    """The server, with an authenticated CA; `api` is the hub's authenticated API server.

    Raises AdministrationError and the client's errors.
    """
    check(trust)
    if trust.ca:
        return HubAddress(trust.server, pinned(trust.ca, trust.hashes, CA_FLAG, HASH_FLAG) if trust.hashes else trust.ca)
    if trust.hashes:
        return HubAddress(trust.server, pinned(await _presented(trust), trust.hashes, _source(trust), HASH_FLAG))
    if api is None:
        raise Refused(f"nothing proves that {trust.server} is the hub's gRPC server: no authority and no hash is given", PROVE)
    return HubAddress(trust.server, await _announced_ca(api, token, connect))


def _source(trust: GrpcTrust) -> str:
    return f"the gRPC server {trust.server}, as it presents them,"


async def _presented(trust: GrpcTrust) -> bytes:
    try:
        found = await presented_certificates(trust.server, proxy=trust.proxy)
    except UpstreamError as error:
        remedy = "can it be reached from here? --proxy-url or HTTPS_PROXY may help"
        raise AdministrationError(f"--grpc-server: {error}", remedy) from None
    # A cross-signed certificate is only as good as its issuer, and expires with it.
    return b"".join(one.public_bytes(Encoding.PEM) for one in found if one.issuer == one.subject)


async def _announced_ca(api: HubAddress, token: str, connect: Connect) -> bytes:
    """The CA that the hub's API server publishes, read with the token."""
    client = connect(ClientConfig(api.server, api.ca or None, identity=AuthInfo(token=token)))
    try:
        found = await grpc_authority(client)
    except (NotFound, Forbidden) as error:
        where = f"ConfigMap {HUB_NAMESPACE}/{AUTHORITY_MAP}, key {AUTHORITY_KEY}"
        raise AdministrationError(f"the hub does not publish the CA of its gRPC server in {where}: {error}", PROVE) from None
    finally:
        await client.close()
    if not certificates_in(found):
        raise AdministrationError(f"ConfigMap {HUB_NAMESPACE}/{AUTHORITY_MAP}: there is no certificate in it", PROVE)
    return found
