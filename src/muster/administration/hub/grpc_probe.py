"""A look at the hub's gRPC server from outside: is it reached where agents are sent, and does its certificate prove who it is?

Nobody is introduced and nothing is sent: the connection is made as agents make theirs and closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.http.upstream import UpstreamError, UpstreamUntrusted
from muster.transport.client.probing import presented_certificates

SOON: Final = timedelta(days=7)
"""Operators renew a certificate long before: one that has less left is not being renewed."""


@dataclass(frozen=True)
class GrpcServerState:
    reached: bool = False
    problem: str = ""
    remedy: str = ""
    until: datetime | None = None
    """When its certificate ends."""


async def probe_grpc_server(address: str, authority: bytes, now: datetime) -> GrpcServerState:
    """`authority` (PEM) is what agents are told to trust."""
    try:
        leaf = (await presented_certificates(address, authority))[0]
    except UpstreamUntrusted as error:
        remedy = "does the certificate bear this address, and is it signed by what the hub publishes? see get hub-info"
        return GrpcServerState(True, f"nobody can trust {error.upstream}: {error.reason}", remedy)
    except UpstreamError as error:
        return GrpcServerState(False, f"it cannot be reached from here: {error}", "is the address right, and the way there open?")
    except ValueError as error:
        return GrpcServerState(False, f"{address}: {error}", "correct it with init --grpc-server HOST:PORT")
    until = leaf.not_valid_after_utc
    if until - now < SOON:
        text = f"its certificate ends at {until:%Y-%m-%dT%H:%M:%SZ}"
        return GrpcServerState(True, text, "whoever made it has to renew it: does the operator run?", until)
    return GrpcServerState(True, until=until)
