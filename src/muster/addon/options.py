"""What an administrator can set on the addon manager, with the defaults that an empty command line gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.registration.names import HUB_NAMESPACE

ADDON_MANAGEMENT: Final = "AddonManagement"
"""On by default; where it is off, the operator of hubs runs no addon manager."""
GATES: Final = (ADDON_MANAGEMENT,)


@dataclass(frozen=True)
class AddonOptions:
    namespace: str = HUB_NAMESPACE
    """Where the manager keeps its lease, and where signing CAs are that name no namespace."""
    workers: int = 16
