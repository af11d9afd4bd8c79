"""The conditions of a replica set: types and reasons are upstream's, the messages have more details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.api.meta import Condition
from muster.api.work.v1alpha1 import (
    MANIFEST_WORK_APPLIED,
    PLACEMENT_ROLLED_OUT,
    PLACEMENT_VERIFIED,
    ManifestWorkReplicaSetSummary,
    PlacementSummary,
)
from muster.placement.rollout import Group, Rollout, State
from muster.work.hub.replica_sets.replicas import Replica
from muster.work.names import APPLIED, AVAILABLE, DEGRADED, PROGRESSING

_LISTED: Final = 5


@dataclass(frozen=True)
class PlacementShare:
    """The clusters of one of the set's placements: those selected, those that have the change, and those that are next."""

    name: str
    groups: tuple[Group, ...] = ()
    updated: Mapping[str, Replica] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)
    rollout: Rollout = field(default_factory=Rollout)
    present: frozenset[str] = frozenset()
    """Clusters that have a work, of any version of the template."""
    missing: bool = False
    """The placement does not exist."""
    problem: str = ""
    """Why its rollout strategy is invalid."""

    @property
    def chosen(self) -> int:
        return sum(len(group.clusters) for group in self.groups)

    def count(self, state: State) -> int:
        return sum(one is state for one in self.states.values())

    def summary(self, begun: frozenset[str]) -> ManifestWorkReplicaSetSummary:
        """`begun` are clusters whose work has just been changed."""
        works = self.updated.values()
        fresh = begun & set(self.rollout.begin)
        return ManifestWorkReplicaSetSummary(
            total=len(self.present | fresh),
            desired_total=self.chosen,
            updated=len(self.updated) + len(fresh),
            applied=sum(work.is_true(APPLIED) for work in works),
            available=sum(work.is_true(AVAILABLE) for work in works),
            progressing=sum(work.is_true(PROGRESSING) for work in works),
            degraded=sum(work.is_true(DEGRADED) for work in works),
        )

    def line(self, begun: frozenset[str]) -> PlacementSummary:
        summary = self.summary(begun)
        groups = f"{len(self.groups)} ({summary.updated} / {self.chosen} clusters applied)"
        return PlacementSummary(name=self.name, available_decision_groups=groups, summary=summary)


def added(summaries: Sequence[ManifestWorkReplicaSetSummary]) -> ManifestWorkReplicaSetSummary:
    names = ManifestWorkReplicaSetSummary.__struct_fields__
    return ManifestWorkReplicaSetSummary(**{name: sum(getattr(summary, name) for summary in summaries) for name in names})


def verified(shares: Sequence[PlacementShare]) -> Condition:
    if missing := [share.name for share in shares if share.missing]:
        message = f"there is no placement {', '.join(missing)}"
        return Condition(type=PLACEMENT_VERIFIED, status="False", reason="PlacementDecisionNotFound", message=message)
    if problems := [f"{share.name}: {share.problem}" for share in shares if share.problem]:
        return Condition(type=PLACEMENT_VERIFIED, status="False", reason="NotAsExpected", message="; ".join(problems))
    if not any(share.chosen for share in shares):
        message = "the placements have chosen no clusters"
        return Condition(type=PLACEMENT_VERIFIED, status="False", reason="PlacementDecisionEmpty", message=message)
    return Condition(type=PLACEMENT_VERIFIED, status="True", reason="AsExpected")


def rolled_out(shares: Sequence[PlacementShare]) -> Condition:
    chosen, done = sum(share.chosen for share in shares), sum(share.count(State.SUCCEEDED) for share in shares)
    whole = done == chosen and not any(share.missing or share.problem for share in shares)
    sentences = [f"{done} of {chosen} clusters have succeeded"]
    if late := [cluster for share in shares for cluster in share.rollout.late]:
        sentences.append(f"late: {listed(late)}")
    if any(share.rollout.stopped for share in shares):
        sentences.append(f"stopped, for {sum(share.rollout.failures for share in shares)} have failed")
    status, reason = ("True", "Complete") if whole else ("False", "Progressing")
    return Condition(type=PLACEMENT_ROLLED_OUT, status=status, reason=reason, message="; ".join(sentences))


def applied(shares: Sequence[PlacementShare], failed: Mapping[str, str], total: ManifestWorkReplicaSetSummary) -> Condition:
    """`failed` are clusters whose work could not be written, with the error."""

    def condition(status: str, reason: str, message: str = "") -> Condition:
        return Condition(type=MANIFEST_WORK_APPLIED, status=status, reason=reason, message=message)

    if failed:
        reasons = [f"{cluster}: {why}" for cluster, why in sorted(failed.items())]
        return condition("False", "NotAsExpected", f"works cannot be written: {listed(reasons)}"[:32768])
    if not total.desired_total:
        return condition("False", "PlacementDecisionEmpty", "no cluster is chosen")
    if broken := sorted(name for share in shares for name, state in share.states.items() if state is State.FAILED):
        return condition("False", "NotAsExpected", f"failed on {listed(broken)}")
    done = total.available == total.updated == total.desired_total
    if done and not total.progressing:
        return condition("True", "AsExpected")
    return condition("False", "Processing", f"{total.available} of {total.desired_total} works are available")


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
