"""work.open-cluster-management.io/v1alpha1: ManifestWorkReplicaSet, one ManifestWork for each cluster of some placements."""

from __future__ import annotations

from typing import Annotated, Final

from muster.api.cluster.v1alpha1 import RolloutStrategy
from muster.api.markers import REQUIRED, NonEmpty, default, one_of, schema
from muster.api.meta import Conditions
from muster.api.resource import Record, ResourceType, TypedObject, condition_column
from muster.api.work.v1 import GROUP, ManifestWorkSpec

PLACEMENT_VERIFIED: Final = "PlacementVerified"
PLACEMENT_ROLLED_OUT: Final = "PlacementRolledOut"
MANIFEST_WORK_APPLIED: Final = "ManifestworkApplied"

_ALL_AT_ONCE: Final = {"type": "All", "all": {"progressDeadline": "None"}}


class LocalPlacementReference(Record):
    """A placement of the same namespace, and how changes roll out over its clusters."""

    name: NonEmpty
    rollout_strategy: Annotated[RolloutStrategy, default(_ALL_AT_ONCE)] = RolloutStrategy()


class ManifestWorkReplicaSetSpec(Record):
    """The work, and the placements whose clusters get it."""

    manifest_work_template: ManifestWorkSpec = ManifestWorkSpec()
    placement_refs: Annotated[tuple[LocalPlacementReference, ...], schema(minItems=1)]
    cascade_deletion_policy: Annotated[str, one_of("Background", "Foreground"), REQUIRED] = "Background"


class ManifestWorkReplicaSetSummary(Record):
    """How many works are in which state."""

    total: int = 0
    desired_total: int = 0
    updated: int = 0
    applied: int = 0
    available: int = 0
    progressing: int = 0
    degraded: int = 0


class PlacementSummary(Record):
    """The observed state of the works of one placement."""

    name: str = ""
    available_decision_groups: str = ""
    summary: ManifestWorkReplicaSetSummary = ManifestWorkReplicaSetSummary()


class ManifestWorkReplicaSetStatus(Record):
    """The observed state of the works."""

    conditions: Conditions = ()
    summary: ManifestWorkReplicaSetSummary = ManifestWorkReplicaSetSummary()
    placement_summary: tuple[PlacementSummary, ...] = ()


class ManifestWorkReplicaSet(TypedObject):
    """Maintains one ManifestWork in the namespace of each cluster that its placements select."""

    resource = ResourceType(
        GROUP,
        "v1alpha1",
        "ManifestWorkReplicaSet",
        "manifestworkreplicasets",
        "Namespaced",
        short_names=("mwrs",),
        columns=(
            condition_column("Placement", PLACEMENT_VERIFIED, "reason", "Why the placements are as they are"),
            condition_column("Found", PLACEMENT_VERIFIED, description="Whether the placements have decisions"),
            condition_column("ManifestWorks", MANIFEST_WORK_APPLIED, "reason", "Why the works are as they are"),
            condition_column("Applied", MANIFEST_WORK_APPLIED, description="Whether all works are applied"),
        ),
    )

    spec: ManifestWorkReplicaSetSpec | None = None
    status: ManifestWorkReplicaSetStatus = ManifestWorkReplicaSetStatus()
