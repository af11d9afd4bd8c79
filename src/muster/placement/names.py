"""Names that are the placement controller's and upstream's alike."""

from __future__ import annotations

from typing import Final

DISABLED: Final = "cluster.open-cluster-management.io/experimental-scheduling-disable"
"""Annotation of a Placement: with the value "true" the controller leaves it alone."""
