"""The result of a manifest, from the pass over a work to the writer of the status.

A `ManifestResult` has two independent halves: whether the manifest was applied (`failure`), and the object's current state (`live`,
or why that is unknown). The status is a function of the work, these results and the time; it needs no requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.api.work.v1 import ManifestResourceMeta
from muster.machinery.objects import Object
from muster.work.agent.interfaces import ApplyProblem, InvalidManifest, Manifest, Refusal
from muster.work.names import FAILED_TO_APPLY, WITHHELD

FAILED: Final = "AppliedManifestFailed"
IGNORED_FIELDS: Final = "AppliedManifestSSAIgnoreFieldError"
CONFLICT: Final = "ApplyConflict"


@dataclass(frozen=True)
class ManifestFailure:
    """Why a manifest is not applied: reason and whole message of its Applied condition."""

    reason: str
    message: str


@dataclass(frozen=True)
class ManifestResult:
    """What came of one manifest in one pass. Without `failure` it is applied, in this pass or before."""

    manifest: Manifest | InvalidManifest
    failure: ManifestFailure | None = None
    live: Object | bytes | None = None
    """The object as it is now, as a document or as JSON; None: it is not there."""
    last: bytes = b""
    """The object as it was when it went, where it had reached its end by then; `live` is None."""
    unfetched: str = ""
    """Why it is unknown whether the object exists; `live` means nothing then."""
    hidden: str = ""
    """Why nothing but the object's existence may be reported."""

    @property
    def meta(self) -> ManifestResourceMeta:
        return self.manifest.meta


def failed(problem: Exception) -> ManifestFailure:
    """A manifest that the cluster refused, or that could not be applied."""
    if isinstance(problem, ApplyProblem):
        if problem.reason == IGNORED_FIELDS:
            return ManifestFailure(problem.reason, problem.message)
        return _failure(problem.message, problem.reason or FAILED)
    return _failure(str(problem) or type(problem).__name__)


def refused(refusal: Refusal) -> ManifestFailure:
    """A manifest that the executor may not have applied."""
    return _failure(refusal.message, WITHHELD if refusal.withheld else FAILED)


def unfit(invalid_manifest: InvalidManifest) -> ManifestFailure:
    return _failure(invalid_manifest.problem)


def _failure(detail: str, reason: str = FAILED) -> ManifestFailure:
    return ManifestFailure(reason, FAILED_TO_APPLY + detail)
