"""Conditions of a Job: its decided outcome (SuccessCriteriaMet, FailureTarget) and its final one (Complete, Failed)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.fleet.workloads.podstate import condition
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
SUSPENDED: Final = "Suspended"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The decided outcome of a Job, before it is final: its last pods may still have to end and be counted."""

    succeeded: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        return SUCCESS_CRITERIA_MET if self.succeeded else FAILURE_TARGET

    @property
    def final(self) -> str:
        return COMPLETE if self.succeeded else FAILED


REACHED: Final = JobOutcome(True, "CompletionsReached", "Reached expected number of succeeded pods")


def has_condition(job: Object, kind: str) -> bool:
    return (condition(job, kind) or {}).get("status") == "True"


def is_finished(job: Object) -> bool:
    return finished_condition(job) is not None


def finished_condition(job: Object) -> Object | None:
    found = (condition(job, kind) for kind in (COMPLETE, FAILED))
    return next((each for each in found if each is not None and each.get("status") == "True"), None)


def recorded_outcome(job: Object) -> JobOutcome | None:
    """The outcome that an earlier pass decided."""
    for kind in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        found = condition(job, kind)
        if found is not None and found.get("status") == "True":
            return JobOutcome(kind == SUCCESS_CRITERIA_MET, found.get("reason", ""), found.get("message", ""))
    return None


def set_condition(status: Object, kind: str, holds: bool, reason: str, message: str, now: datetime) -> bool:
    """Set a condition; returns whether it changed. A condition that was never true is not set to False."""
    present, moment = list(status.get("conditions") or ()), format_time(now)
    wanted = {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
    current = next((each for each in present if each["type"] == kind), None)
    if current is None and not holds:
        return False
    if current is not None and all(current.get(field, "") == value for field, value in wanted.items()):
        return False
    made = {**wanted, "lastProbeTime": moment, "lastTransitionTime": moment}
    status["conditions"] = [made if each is current else each for each in present] if current is not None else [*present, made]
    return True
