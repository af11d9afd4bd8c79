"""cluster.open-cluster-management.io/v1alpha1: scores that addons give clusters, claims of a cluster, and how changes roll out.

`RolloutStrategy` is no kind of its own: work and addon kinds contain it.
"""

from __future__ import annotations

from typing import Annotated

from muster.api.cluster.v1 import GROUP
from muster.api.markers import Int32, Time, default, int_or_string, keyed_by, length, one_of, pattern, schema
from muster.api.meta import Conditions
from muster.api.resource import Record, ResourceType, TypedObject

_SHARE_OR_COUNT = int_or_string(r"^((100|[0-9]{1,2})%|[0-9]+)$")
MaxFailures = Annotated[int | str, _SHARE_OR_COUNT, default(0)]
MaxConcurrency = Annotated[int | str, _SHARE_OR_COUNT]
ProgressDeadline = Annotated[str, pattern(r"^(([0-9])+[h|m|s])|None$")]


class ClusterClaimSpec(Record):
    """The value of the claim."""

    value: Annotated[str, length(1, 1024)] = ""


class ClusterClaim(TypedObject):
    """A fact about the cluster that contains it; the agent reports it to the hub."""

    resource = ResourceType(GROUP, "v1alpha1", "ClusterClaim", "clusterclaims", "Cluster", status=False)

    spec: ClusterClaimSpec = ClusterClaimSpec()


class Score(Record):
    """The score of a cluster by one measure."""

    name: str
    value: Annotated[Int32, schema(minimum=-100, maximum=100)]


class AddOnPlacementScoreStatus(Record):
    """The scores, and how long they are valid."""

    conditions: Conditions = ()
    scores: Annotated[tuple[Score, ...], keyed_by("name")] = ()
    valid_until: Time = ""


class AddOnPlacementScore(TypedObject):
    """Scores of one managed cluster, in its namespace, that placements can weigh."""

    resource = ResourceType(GROUP, "v1alpha1", "AddOnPlacementScore", "addonplacementscores", "Namespaced")

    status: AddOnPlacementScoreStatus = AddOnPlacementScoreStatus()


class MandatoryDecisionGroup(Record):
    """A decision group that must succeed before the others begin."""

    group_name: str = ""
    group_index: Int32 = 0


class RolloutConfig(Record):
    """When a cluster counts as updated or failed, and how many may fail."""

    min_success_time: str = "0"
    progress_deadline: ProgressDeadline = "None"
    max_failures: MaxFailures = 0


class RolloutAll(RolloutConfig):
    """All clusters at once."""


class RolloutProgressive(RolloutConfig):
    """Cluster by cluster, a limited number at a time."""

    mandatory_decision_groups: tuple[MandatoryDecisionGroup, ...] = ()
    max_concurrency: MaxConcurrency | None = None


class RolloutProgressivePerGroup(RolloutConfig):
    """Decision group by decision group."""

    mandatory_decision_groups: tuple[MandatoryDecisionGroup, ...] = ()


class RolloutStrategy(Record):
    """The order in which clusters get a change."""

    type: Annotated[str, one_of("All", "Progressive", "ProgressivePerGroup")] = "All"
    all: RolloutAll | None = None
    progressive: RolloutProgressive | None = None
    progressive_per_group: RolloutProgressivePerGroup | None = None
