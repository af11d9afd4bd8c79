"""The options of the controllers of addons' credentials."""

from __future__ import annotations

from dataclasses import dataclass

from muster.registration.drivers.grpc.options import DEFAULT_ACCOUNT
from muster.registration.names import HUB_NAMESPACE


@dataclass(frozen=True)
class RequestOptions:
    namespace: str = HUB_NAMESPACE
    """The manager's own namespace, and the default of signing CAs."""
    grpc_accounts: frozenset[str] = frozenset((DEFAULT_ACCOUNT,))
    """The accounts of the hub's gRPC servers, which create requests for agents."""
