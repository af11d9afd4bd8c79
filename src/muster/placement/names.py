"""Names shared by the placement controller and upstream's."""

from __future__ import annotations

from typing import Final

DISABLED: Final = "cluster.open-cluster-management.io/experimental-scheduling-disable"
"""An annotation of a Placement: with the value "true" the controller ignores it."""
