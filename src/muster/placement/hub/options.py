"""The options of the placement controller, with the defaults of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.registration.names import HUB_NAMESPACE

DEBUG_SERVER: Final = "PlacementDebugServer"
GATES: Final = (DEBUG_SERVER,)
UNSUPPORTED_GATES: Final = ("SIGPlacementDecision",)
"""Feature gates of upstream's placement controller that can only be disabled here."""


@dataclass(frozen=True)
class PlacementOptions:
    namespace: str = HUB_NAMESPACE
    """The namespace of the controller's Lease."""
    workers: int = 16
