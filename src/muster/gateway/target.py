"""Where and as whom a request for a cluster is sent: the interface between the inventory of clusters and the relay.

A `Target` is all that the relay needs to know about one cluster at one moment. It is an immutable value: a request uses the one
it has got, and the next request uses the current one. If `problem` is set, nothing can be sent, and the other fields are for
display only. It contains secrets, so it is never printed, logged or compared by its text.
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
"""Why a cluster does not answer through the gateway: causes of errors, reasons in `status.healthyReason`, and labels of metrics."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of an API server; `base_path` is raw, and empty or begins with a slash and does not end with one."""

    host: str
    port: int
    base_path: str = ""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.base_path}"


@dataclass(frozen=True, slots=True)
class Trust:
    """How the cluster's server certificate is verified. Without authorities, the system's trusted CAs are used."""

    authorities: bytes = b""
    """PEM."""
    server_name: str = ""
    """Expected name in the certificate; the endpoint's host if empty."""
    insecure: bool = False
    """No verification: only if an administrator has set this in the credential's Secret."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    token: str = field(repr=False)
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Certificate and key in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    expires: datetime | None = None


Credential = BearerToken | ClientCertificate


@dataclass(frozen=True, slots=True)
class Problem:
    """`cause` is one of the names above; `message` names the problem, the field or object, and the remedy, and contains no
    secret."""

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
    """The proxy to use, if any: http, https or socks5."""
    account: str = ""
    """The gateway's user on the cluster, for display; empty if it is not known."""
    problem: Problem | None = None
    tunnel: bool = False
    """Whether the endpoints are reached only through the tunnel that the cluster's agent has opened."""
    cluster_proxy: bool = False
    """Whether the endpoints are reached only through upstream's cluster-proxy."""


class Targets(Protocol):
    """The currently known clusters."""

    def find(self, cluster: str) -> Target | None:
        """None if the hub has no such cluster, or has not accepted it."""
        ...

    async def refreshed(self, cluster: str) -> Target | None:
        """Read from the hub, bypassing all caches: for a credential that the cluster has just refused."""
        ...


class Observer(Protocol):
    """Is notified of the result of every exchange with a cluster."""

    def answered(self, target: Target) -> None: ...

    def failed(self, target: Target, problem: Problem) -> None: ...
