"""What an administrator can set on the placement controller, with the defaults that an empty command line gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.registration.names import HUB_NAMESPACE

DEBUG_SERVER: Final = "PlacementDebugServer"
GATES: Final = (DEBUG_SERVER,)
UNSUPPORTED_GATES: Final = ("SIGPlacementDecision",)
"""Feature gates of upstream's placement controller that can only be off here."""


@dataclass(frozen=True)
class PlacementOptions:
    namespace: str = HUB_NAMESPACE
    """Where the controller keeps its lease."""
    workers: int = 16
