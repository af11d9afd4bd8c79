"""Events on the managed cluster about failures of works, and lines in the agent's log.

Administrators of the managed cluster do not see the hub's status, but they can grant what an executor or the agent lacks. So each
failure of a manifest is reported here too when it is new: once, not at every retry. A manifest that only waits for another one is
not reported. An Event is written when a failure begins and ends; a work without failures costs no request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from muster.api.meta import condition_of
from muster.api.work.v1 import AppliedManifestWork, ManifestCondition, ManifestWork, ManifestWorkStatus
from muster.machinery.logs import get_logger
from muster.runtime.controller import EventRecorder
from muster.work.names import APPLIED, FAILED_TO_APPLY, WITHHELD

log = get_logger("muster.work.agent")

Trouble = Mapping[str, tuple[str, str]]
"""By object: the reason and the message of what is wrong."""


class EventReporter:
    def __init__(self, events: EventRecorder, record_of: Callable[[str], AppliedManifestWork | None]) -> None:
        self._events = events
        self._record_of = record_of

    def on_status_reported(self, work: ManifestWork, status: ManifestWorkStatus) -> None:
        """`work` had another status before."""
        name, generation = work.metadata.name, work.metadata.generation
        before, now = _trouble(work.status), _trouble(status)
        for what, (reason, message) in now.items():
            if before.get(what) != (reason, message):
                log.warning("a manifest cannot be applied", work=name, object=what, reason=reason, problem=message)
                self._event(name, "Warning", reason, f"{what}: {message}")
        applied, former = condition_of(status.conditions, APPLIED), condition_of(work.status.conditions, APPLIED)
        if applied is None or applied.status != "True":
            return
        if former is None or (former.status, former.observed_generation) != ("True", generation):
            log.info("a work is applied", work=name, generation=generation)
        if before:
            self._event(name, "Normal", applied.reason, applied.message)

    def _event(self, work: str, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        record = self._record_of(work)
        if record is not None:
            self._events.event(record.document(), kind, reason, note)


def _trouble(status: ManifestWorkStatus) -> Trouble:
    return {
        f"{manifest.resource_meta.sort} {manifest.resource_meta.key}": failure
        for manifest in status.resource_status.manifests
        if (failure := _failure(manifest)) is not None
    }


def _failure(manifest: ManifestCondition) -> tuple[str, str] | None:
    applied = condition_of(manifest.conditions, APPLIED)
    if applied is None or applied.status != "False" or applied.reason == WITHHELD:
        return None
    return applied.reason, applied.message.removeprefix(FAILED_TO_APPLY)
