"""The status of a work for display: its resources, and its first problem in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.api.meta import Condition, condition_of
from muster.api.work.v1 import ManifestCondition, ManifestWork
from muster.work.names import APPLIED, AVAILABLE, DELETING, FAILED_TO_APPLY, WITHHELD

NOT_YET: Final = "the cluster's agent has not dealt with it yet"


def resources_of(work: ManifestWork) -> Iterator[tuple[str, str, ManifestCondition]]:
    """Resource, name and condition of each manifest."""
    for manifest in work.status.resource_status.manifests:
        yield manifest.resource_meta.sort, manifest.resource_meta.key, manifest


def problem_of(work: ManifestWork) -> str:
    """The first problem; empty if the work is applied and available."""
    conditions = work.status.conditions
    going = condition_of(conditions, DELETING)
    if going is not None and going.status == "True":
        return one_line(going.message)
    for kind in (APPLIED, AVAILABLE):
        condition = condition_of(conditions, kind)
        if condition is None or is_old(condition, work):
            return NOT_YET
        if condition.status != "True":
            return _first_wrong(work, kind) or status_text(condition, kind)
    return ""


def _first_wrong(work: ManifestWork, kind: str) -> str:
    """The first failed manifest; one that only waits for another is not the problem."""
    wrong = [
        (f"{cluster} {name}", condition)
        for cluster, name, manifest in resources_of(work)
        if (condition := condition_of(manifest.conditions, kind)) is not None and condition.status != "True"
    ]
    if not wrong:
        return ""
    what, condition = min(wrong, key=lambda one: one[1].reason == WITHHELD)
    why = one_line(condition.message.removeprefix(FAILED_TO_APPLY))
    return f"{what}: {why}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")


def is_old(condition: Condition, work: ManifestWork) -> bool:
    """Whether the condition is for an earlier generation; one without observedGeneration counts as current."""
    return 0 < condition.observed_generation < work.metadata.generation


def status_text(condition: Condition, kind: str = "") -> str:
    text = f"{condition.status}: {condition.reason}: {one_line(condition.message)}".rstrip(": ")
    return f"{kind} is {text}" if kind else text


def one_line(text: str) -> str:
    return " ".join(text.split())
