"""cluster.open-cluster-management.io/v1beta1: Placement, which asks for clusters, and PlacementDecision, which names them."""

from __future__ import annotations

from typing import Annotated, Final

from muster.api.cluster.v1 import GROUP, TaintEffect
from muster.api.markers import REQUIRED, Int32, Int64, QualifiedName, Time, default, int_or_string, length, one_of, pattern, schema
from muster.api.meta import Conditions, LabelSelector, Requirement
from muster.api.resource import Column, Record, ResourceType, TypedObject, condition_column

SATISFIED: Final = "PlacementSatisfied"
MISCONFIGURED: Final = "PlacementMisconfigured"
PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"
DECISION_GROUP_NAME_LABEL: Final = "cluster.open-cluster-management.io/decision-group-name"
DECISION_GROUP_INDEX_LABEL: Final = "cluster.open-cluster-management.io/decision-group-index"

ClustersPerGroup = Annotated[int | str, int_or_string(r"^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$")]


class ClaimSelector(Record):
    """Selects clusters by their claims."""

    match_expressions: tuple[Requirement, ...] = ()


class CelSelector(Record):
    """Selects clusters for which all CEL expressions over `managedCluster` are true."""

    cel_expressions: tuple[str, ...] = ()


class ClusterSelector(Record):
    """Selects clusters by labels, claims and expressions; all must match."""

    label_selector: LabelSelector = LabelSelector()
    claim_selector: ClaimSelector = ClaimSelector()
    cel_selector: CelSelector = CelSelector()


class ClusterPredicate(Record):
    """The requirements of a cluster; of several predicates one is enough."""

    required_cluster_selector: ClusterSelector = ClusterSelector()


class AddOnScore(Record):
    """A score that an addon reports in AddOnPlacementScores."""

    resource_name: str
    score_name: str


class ScoreCoordinate(Record):
    """The score that is referred to."""

    type: Annotated[str, one_of("BuiltIn", "AddOn"), REQUIRED] = "BuiltIn"
    built_in: str = ""
    add_on: AddOnScore | None = None


class PrioritizerConfig(Record):
    """The weight of a score."""

    score_coordinate: ScoreCoordinate
    weight: Annotated[Int32, schema(minimum=-10, maximum=10)] = 1


class PrioritizerPolicy(Record):
    """The prioritizers by which clusters are ranked."""

    mode: str = "Additive"
    configurations: tuple[PrioritizerConfig, ...] = ()


class SpreadConstraint(Record):
    """How evenly selected clusters are spread across the values of one key."""

    topology_key: Annotated[
        str,
        pattern(
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$", 316
        ),
    ]
    topology_key_type: Annotated[str, one_of("Label", "Claim")]
    max_skew: Annotated[Int32, schema(minimum=1)] = 1
    when_unsatisfiable: Annotated[str, one_of("DoNotSchedule", "ScheduleAnyway")] = "ScheduleAnyway"


class SpreadPolicy(Record):
    """How clusters are spread."""

    spread_constraints: Annotated[tuple[SpreadConstraint, ...], schema(maxItems=8)] = ()


class ClusterToleration(Record):
    """Lets a placement select clusters that have a matching taint."""

    key: QualifiedName = ""
    operator: str = "Equal"
    value: Annotated[str, length(maximum=1024)] = ""
    effect: TaintEffect = ""
    toleration_seconds: Int64 | None = None


class GroupClusterSelector(Record):
    """The selected clusters that belong to a group."""

    label_selector: LabelSelector = LabelSelector()
    claim_selector: ClaimSelector = ClaimSelector()


class DecisionGroup(Record):
    """A named group of selected clusters."""

    group_name: Annotated[str, pattern(r"^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$")]
    group_cluster_selector: GroupClusterSelector


class GroupStrategy(Record):
    """How selected clusters are divided into groups."""

    decision_groups: tuple[DecisionGroup, ...] = ()
    clusters_per_decision_group: ClustersPerGroup = "100%"


class DecisionStrategy(Record):
    """How decisions are written."""

    group_strategy: GroupStrategy = GroupStrategy()


class PlacementSpec(Record):
    """The clusters to select, and their number."""

    cluster_sets: tuple[str, ...] = ()
    number_of_clusters: Int32 | None = None
    predicates: tuple[ClusterPredicate, ...] = ()
    prioritizer_policy: PrioritizerPolicy = PrioritizerPolicy()
    spread_policy: SpreadPolicy = SpreadPolicy()
    tolerations: tuple[ClusterToleration, ...] = ()
    decision_strategy: DecisionStrategy = DecisionStrategy()
    sort_by: Annotated[str, one_of("ClusterName", "Score")] = "ClusterName"
    score_rate_limit: Annotated[str, pattern(r"^[0-9]+[hms]$")] = "1m"


class DecisionGroupStatus(Record):
    """One group of decisions, and the PlacementDecisions that hold it."""

    decision_group_index: Int32 = 0
    decision_group_name: str = ""
    decisions: tuple[str, ...] = ()
    cluster_count: Annotated[Int32, default(0)] = 0


class PlacementStatus(Record):
    """The result of the selection."""

    number_of_selected_clusters: Int32 = 0
    decision_groups: tuple[DecisionGroupStatus, ...] = ()
    conditions: Conditions = ()
    last_score_update_time: Time = ""


class Placement(TypedObject):
    """Selects managed clusters from the sets that are bound to its namespace."""

    resource = ResourceType(
        GROUP,
        "v1beta1",
        "Placement",
        "placements",
        "Namespaced",
        columns=(
            condition_column("Succeeded", SATISFIED),
            condition_column("Reason", SATISFIED, "reason"),
            Column("SelectedClusters", ".status.numberOfSelectedClusters", "integer"),
        ),
    )

    spec: PlacementSpec
    status: PlacementStatus = PlacementStatus()


class ClusterDecision(Record):
    """A selected cluster."""

    cluster_name: str
    reason: str
    score: Int64 = 0


class PlacementDecisionStatus(Record):
    """The selected clusters, at most a hundred per object."""

    decisions: Annotated[tuple[ClusterDecision, ...], REQUIRED] = ()


class PlacementDecision(TypedObject):
    """A part of the clusters that a Placement selected."""

    resource = ResourceType(GROUP, "v1beta1", "PlacementDecision", "placementdecisions", "Namespaced")

    status: PlacementDecisionStatus = PlacementDecisionStatus()
