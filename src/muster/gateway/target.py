"""Where a request for a cluster goes, and as whom: the seam between what is known of clusters and what sends requests to them.

A `Target` is all that a relay needs of one cluster at one moment. It is a value: whoever holds one sends with what it says, and the
next request finds the next one. `problem` says why nothing can be sent; what else it has is then for people to read. Secrets are in
it, so it is never printed, logged or compared by its text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

CREDENTIAL_MISSING: Final = "CredentialMissing"
CREDENTIAL_EXPIRED: Final = "CredentialExpired"
CREDENTIAL_UNUSABLE: Final = "CredentialUnusable"
CREDENTIAL_REFUSED: Final = "CredentialRefused"
ENDPOINT_MISSING: Final = "EndpointMissing"
ENDPOINT_UNUSABLE: Final = "EndpointUnusable"
TUNNEL_MISSING: Final = "TunnelMissing"
CLUSTER_UNREACHABLE: Final = "ClusterUnreachable"
CLUSTER_TIMEOUT: Final = "ConnectionTimeout"
CERTIFICATE_MISMATCH: Final = "CertificateMismatch"
CLUSTER_BROKEN: Final = "ClusterBroken"
CLUSTER_REDIRECTED: Final = "ClusterRedirected"
CLUSTER_BUSY: Final = "ClusterBusy"
NOT_PROBED: Final = "NotProbed"
"""Why a cluster does not answer through the gateway: causes of errors, reasons of `status.healthyReason`, and labels of metrics."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server's address; `base_path` is raw, begins with a slash and ends with none, or is empty."""

    host: str
    port: int
    base_path: str = ""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.base_path}"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom the gateway believes to be the cluster. Without authorities those of the system count."""

    authorities: bytes = b""
    """PEM."""
    server_name: str = ""
    """What the certificate must be for; the endpoint's host if empty."""
    insecure: bool = False
    """Nothing is verified: only where the administrator said so in the credential's Secret."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    token: str = field(repr=False)
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    expires: datetime | None = None


Credential = BearerToken | ClientCertificate


@dataclass(frozen=True, slots=True)
class Problem:
    """`cause` is one of the names above; `message` says what is wrong, where, and the remedy, and has no secret in it."""

    cause: str
    message: str


@dataclass(frozen=True, slots=True)
class Target:
    cluster: str
    endpoints: tuple[Endpoint, ...] = ()
    """In the order in which they are tried."""
    trust: Trust = Trust()
    credential: Credential | None = None
    proxy_url: str = field(default="", repr=False)
    """The proxy on the way, if there is one: http, https or socks5."""
    account: str = ""
    """As whom the cluster knows the gateway, for people; empty where that is not known."""
    problem: Problem | None = None
    tunnel: bool = False
    """The endpoints are reached through the tunnel that the cluster's agent has opened, and in no other way."""
    cluster_proxy: bool = False
    """The endpoints are reached through upstream's cluster-proxy, and in no other way."""


class Targets(Protocol):
    """What is known of clusters now."""

    def find(self, cluster: str) -> Target | None:
        """None: the hub has no such cluster, or has not accepted it."""
        ...

    async def refreshed(self, cluster: str) -> Target | None:
        """Asked of the hub itself, past all caches: for a credential that the cluster has just refused."""
        ...


class Observer(Protocol):
    """Learns from every exchange how a cluster fares."""

    def answered(self, target: Target) -> None: ...

    def failed(self, target: Target, problem: Problem) -> None: ...
