"""What an agent reports of a work: its status, and that it holds the work or has let it go. Nothing else of a work is an agent's.

A work that an agent reports of is held by a finalizer first, so that it cannot go before the agent has cleaned up; the report that
nothing is left takes the finalizer away. What is of another time is passed over with an OK, because the agent can do nothing
better: a work that is gone, a report on an older generation, a report that is older than the last.

Reports of one work may come by several servers, one of them late: it was stopped, or the agent had gone on to another before it
was heard. Which report is the newest is therefore kept with the status itself, as the reason of a condition of ours that has the
sequence id of the report, and a report is written for the version of the work by which it was judged. So no server needs to know
of another, and none writes over a newer status. A sequence id is a time, by the agent's clock: one that is far older than the last
one was not on its way for so long, but is of an agent whose clock was set back. It counts.

A work that is not known here may be known to another server already: the agent says its name, and the hub is asked.
"""

from __future__ import annotations

from typing import Any, Final

from muster.api.agents import WORK_FINALIZER
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, NotFound
from muster.runtime.controller import removal_patch
from muster.transport.codecs.reading import parse_document, part
from muster.transport.codecs.works import WorkStatus, decode_status
from muster.transport.contract.event import METADATA
from muster.transport.services.reduction import REPORTED
from muster.transport.services.writes.request import WriteRequest

_SEQUENCE: Final = "Sequence:"
ATTEMPTS: Final = 5
"""Of writing a report while others write to the work."""
LATE_SECONDS: Final = 600
"""A report that is older than the last by no more than this was on its way for so long."""
_MILLISECOND_BITS: Final = 22
_LATE: Final = LATE_SECONDS * 1000 << _MILLISECOND_BITS


async def report_status(request: WriteRequest) -> None:
    report = decode_status(request.event)
    work = _known(request, report) or await _asked_by_name(request, report)
    for attempts_left in reversed(range(ATTEMPTS)):
        if work is None:
            return
        try:
            await _write(request, report, work)
        except NotFound:
            # It went in between.
            return
        except Conflict:
            if not attempts_left:
                raise
            work = await _live(request, work["metadata"]["name"], report.resource_id)
        else:
            return


def _known(request: WriteRequest, report: WorkStatus) -> Object | None:
    kept = request.objects.get(report.resource_id)
    if kept is None or kept.cluster != request.cluster:
        return None
    return request.answers.latest(kept)


async def _asked_by_name(request: WriteRequest, report: WorkStatus) -> Object | None:
    written = request.event.text(METADATA)
    metadata = parse_document(f"attribute {METADATA!r}", written) if written else {}
    name: str = part(metadata, "name", str, METADATA)
    return await _live(request, name, report.resource_id) if name and name not in (".", "..") else None


async def _live(request: WriteRequest, name: str, uid: str) -> Object | None:
    try:
        found = await request.client.get(request.row.resource, name, request.cluster)
    except NotFound:
        return None
    return found if found["metadata"]["uid"] == uid else None


async def _write(request: WriteRequest, report: WorkStatus, work: Object) -> None:
    """Raises Conflict where the work is another by now, and NotFound."""
    if report.cleaned_up:
        patch = removal_patch(work, WORK_FINALIZER)
        if patch is not None:
            await _patch(request, work, patch)
        return
    if is_late(report.sequence, last_sequence(work)):
        return
    # Also for an older generation: the agent applies it once it hears that the work is held.
    held = await _hold(request, work)
    if held["metadata"].get("generation", 0) > report.generation:
        return
    patch = {"metadata": _this_version(held), "status": _status(request, report, held)}
    await _patch(request, held, patch, "status")


async def _hold(request: WriteRequest, work: Object) -> Object:
    finalizers = work["metadata"].get("finalizers") or []
    if WORK_FINALIZER in finalizers or work["metadata"].get("deletionTimestamp"):
        return work
    return await _patch(request, work, {"metadata": {**_this_version(work), "finalizers": [*finalizers, WORK_FINALIZER]}})


def _status(request: WriteRequest, report: WorkStatus, work: Object) -> Object:
    """In a merge patch, whole: what was there is replaced."""
    conditions: list[Any] = [one for one in report.status["conditions"] if one.get("type") != REPORTED]
    last = _reported(work)
    conditions.append(
        {
            "type": REPORTED,
            "status": "True",
            "reason": f"{_SEQUENCE}{report.sequence}",
            "message": "The agent's report with this sequence id",
            "lastTransitionTime": (last or {}).get("lastTransitionTime") or format_time(request.clock.now()),
            "observedGeneration": report.generation,
        }
    )
    return {"conditions": conditions, "resourceStatus": {"manifests": report.status["resourceStatus"].get("manifests")}}


async def _patch(request: WriteRequest, work: Object, patch: Object, subresource: str = "") -> Object:
    name = work["metadata"]["name"]
    answer = await request.client.patch(request.row.resource, name, patch, request.cluster, subresource=subresource)
    reported = _reported(answer)
    request.answers.record(answer, conditions=[] if reported is None else [reported])
    return answer


def _this_version(work: Object) -> Object:
    metadata = work["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def is_late(sequence: int, last: int) -> bool:
    """Whether a report is the last one over again, or one from before it."""
    return 0 <= last - sequence <= _LATE


def last_sequence(work: Object) -> int:
    """Of the report that is the work's status; where there is none, that of a report before all others."""
    text = str((_reported(work) or {}).get("reason") or "").removeprefix(_SEQUENCE)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1


def _reported(work: Object) -> Object | None:
    conditions = (work.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == REPORTED), None)
