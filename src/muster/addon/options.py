"""The options of the addon manager, with the defaults of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.registration.names import HUB_NAMESPACE

ADDON_MANAGEMENT: Final = "AddonManagement"
"""Enabled by default; without it, the ClusterManager operator installs no addon manager."""
GATES: Final = (ADDON_MANAGEMENT,)


@dataclass(frozen=True)
class AddonOptions:
    namespace: str = HUB_NAMESPACE
    """The namespace of the manager's Lease, and of signing CAs without a namespace."""
    workers: int = 16
