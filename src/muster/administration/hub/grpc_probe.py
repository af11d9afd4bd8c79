"""A probe of the hub's gRPC server: is it reachable at the agents' address, and is its certificate valid for it?

Nothing is sent: the connection is opened as agents open theirs, and closed. OpenSSL's code tells why a certificate is rejected,
because the remedies differ: another address, a renewal, the right time, or another CA.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.http.upstream import UpstreamError, UpstreamUntrusted
from muster.transport.client.certificate_probe import presented_certificates
from muster.transport.client.config import NO_PROXY, ProxySettings

SOON: Final = timedelta(days=7)
"""Operators renew a certificate long before: with less time left it is not being renewed."""
NOT_YET_VALID, EXPIRED, OTHER_NAME, OTHER_ADDRESS = 9, 10, 62, 64
"""Error codes of OpenSSL."""


@dataclass(frozen=True)
class GrpcServerState:
    reached: bool = False
    problem: str = ""
    remedy: str = ""
    """Empty for a server that is unreachable: its load balancer or network is known to the caller."""
    until: datetime | None = None
    """The notAfter of its certificate."""


async def probe_grpc_server(address: str, authority: bytes, now: datetime, proxy: ProxySettings = NO_PROXY) -> GrpcServerState:
    """`authority` (PEM) is the CA in the agents' configuration, `proxy` the proxy there."""
    try:
        leaf = (await presented_certificates(address, authority, proxy=proxy))[0]
    except UpstreamUntrusted as error:
        return _untrusted(error, address)
    except UpstreamError as error:
        return GrpcServerState(False, f"it cannot be reached from here: {error}")
    except ValueError as error:
        return GrpcServerState(False, f"{address}: {error}", "correct it with init --grpc-server HOST:PORT, and join again")
    until = leaf.not_valid_after_utc
    if until - now < SOON:
        text = f"its certificate ends at {until:%Y-%m-%dT%H:%M:%SZ}"
        return GrpcServerState(True, text, "its issuer has to renew it: does the operator run?", until)
    return GrpcServerState(True, until=until)


def _untrusted(error: UpstreamUntrusted, address: str) -> GrpcServerState:
    if error.verify_code == EXPIRED:
        text = f"the certificate that {error.upstream} shows has expired"
        return GrpcServerState(True, text, "its issuer has to renew it: does the operator run? Is the clock here right?")
    if error.verify_code == NOT_YET_VALID:
        text = f"the certificate that {error.upstream} shows is not valid yet by the clock here"
        return GrpcServerState(True, text, "set the clocks of hub and cluster right (NTP)")
    if error.verify_code in (OTHER_NAME, OTHER_ADDRESS):
        text = f"the certificate that {error.upstream} shows is not for {address}"
        remedy = "the operator takes its names from the ClusterManager: run init --grpc-server with the address that agents dial"
        return GrpcServerState(True, text, remedy)
    remedy = (
        "is what answers there the hub's server? What is before it has to pass TLS through; if the hub has another authority now, "
        "join again with --grpc-ca-hash from get token"
    )
    return GrpcServerState(True, f"clients cannot verify {error.upstream}: {error.reason}", remedy)
