"""What the controllers of addons' credentials are told."""

from __future__ import annotations

from dataclasses import dataclass

from muster.registration.drivers.grpc.options import DEFAULT_ACCOUNT
from muster.registration.names import HUB_NAMESPACE


@dataclass(frozen=True)
class RequestOptions:
    namespace: str = HUB_NAMESPACE
    """The manager's own, where signing authorities are looked for that name no other."""
    grpc_accounts: frozenset[str] = frozenset((DEFAULT_ACCOUNT,))
    """As whom the hub's gRPC servers make requests for agents."""
