"""The agent's state of a work between two passes: what it found to match, and what failed.

All of it may be lost at any time: then the next pass compares once more with the caches, without requests. A failed manifest is not
retried before its backoff, unless the manifest or the object has changed since. An object that another client keeps changing back
(another work, a controller, another agent) is corrected at once a few times, and then at intervals: correcting faster would only
make the other client write more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from muster.machinery.backoff import Backoff
from muster.machinery.objects import ObjectRef
from muster.runtime.cache import ObservedObject, Presence
from muster.runtime.client import NotFound, StatusError, Unreachable
from muster.work.agent.interfaces import ApplyProblem, Manifest
from muster.work.agent.reporting import ManifestFailure

FIRST_RETRY: Final = 0.25
LAST_RETRY: Final = 120.0
CONTESTED_RETRY: Final = 60.0
"""After a failure that only a change of manifest or object can mend: a change is noticed, so this is for safety."""

CHANGED_RETRY: Final = 1.0
"""At the earliest, after a change of the object."""
MISSING_RETRY: Final = 15.0
"""At the latest, where something else has to come first: the namespace, or the cluster itself."""
TERMINATING: Final = "NamespaceTerminating"
"""The cause that a server gives for a refusal."""
REPAIRS: Final = 10.0
"""How often in a row an object is set right at once."""
REPAIR_PAUSE: Final = 30.0
"""Seconds for one more repair after that."""


@dataclass(frozen=True, slots=True)
class UpToDate:
    """The object as it was when it agreed with the manifest."""

    digest: bytes
    version: str


@dataclass(frozen=True, slots=True)
class ApplyFailure:
    digest: bytes
    version: str
    """Of the object that there was, if there was one."""
    failure: ManifestFailure
    attempts: int
    tried: float
    due: float
    """When to try again, on the monotonic clock."""


@dataclass
class WorkState:
    settled: dict[ObjectRef, UpToDate] = field(default_factory=dict)
    troubles: dict[ObjectRef, ApplyFailure] = field(default_factory=dict)
    repairs: dict[ObjectRef, tuple[float, float]] = field(default_factory=dict)
    """Of what had to be set right: how many repairs were left, and when."""
    resting: dict[ObjectRef, float] = field(default_factory=dict)
    """What this pass leaves as it is because there were too many repairs, and until when."""
    audited: bool = False
    """Whether the record's status names all that may have been written."""
    unrecorded: float | None = None
    """Since when the record lacks what the passes have found."""
    setbacks: int = 0
    """How often in a row it could not be found out what the executor may."""
    reported: float = float("-inf")
    """When a status was last reported to the hub."""
    removals: int = 0
    """How often in a row something was left to be removed."""
    record: str = ""
    """The uid of the record that the objects were found to belong to."""

    def belongs_to(self, record: str) -> None:
        """Objects of a record that was made anew bear the mark of the one before: none of them is right."""
        if record != self.record:
            self.settled.clear()
        self.record = record

    def agrees(self, manifest: Manifest, observed: ObservedObject) -> bool:
        """Whether there is nothing to be done about a manifest."""
        settled = self.settled.get(manifest.ref)
        return (
            settled is not None
            and observed.presence is Presence.PRESENT
            and settled.version == observed.version
            and settled.digest == manifest.digest
        )

    def had(self, manifest: Manifest) -> bool:
        """Whether the object matched this manifest when it was last compared."""
        settled = self.settled.get(manifest.ref)
        return settled is not None and settled.digest == manifest.digest

    def trouble(self, manifest: Manifest, observed: ObservedObject, now: float) -> ManifestFailure | None:
        """The failure that is not to be tried again yet."""
        trouble = self.troubles.get(manifest.ref)
        if trouble is None or trouble.digest != manifest.digest:
            return None
        if trouble.version != observed.version:
            # A change of the object may have mended it, but there are objects that change all the time.
            trouble = self.troubles[manifest.ref] = replace(trouble, due=min(trouble.due, trouble.tried + CHANGED_RETRY))
        return None if trouble.due <= now else trouble.failure

    def rests(self, manifest: Manifest, now: float) -> bool:
        """Whether an object is left as it is for now, because it was set right too often."""
        left = self._repairs_left(manifest.ref, now)
        if left >= 1.0 or not self.had(manifest):
            return False
        self.resting[manifest.ref] = now + (1.0 - left) * REPAIR_PAUSE
        return True

    def _repairs_left(self, ref: ObjectRef, now: float) -> float:
        left, since = self.repairs.get(ref, (REPAIRS, now))
        return min(REPAIRS, left + (now - since) / REPAIR_PAUSE)

    def applied(self, manifest: Manifest, version: str, now: float, *, wrote: bool) -> None:
        if wrote and self.had(manifest):
            self.repairs[manifest.ref] = (self._repairs_left(manifest.ref, now) - 1.0, now)
        self.settled[manifest.ref] = UpToDate(manifest.digest, version)
        self.troubles.pop(manifest.ref, None)

    def failed(
        self, manifest: Manifest, observed: ObservedObject, error: Exception, failure: ManifestFailure, now: float, backoff: Backoff
    ) -> None:
        self.settled.pop(manifest.ref, None)
        former = self.troubles.get(manifest.ref)
        attempts = former.attempts + 1 if former is not None and former.digest == manifest.digest else 1
        delay = backoff.delay(attempts)
        if isinstance(error, ApplyProblem):
            delay = max(delay, CONTESTED_RETRY)
        elif isinstance(error, NotFound | Unreachable) or _namespace_terminates(error):
            delay = min(delay, MISSING_RETRY)
        self.troubles[manifest.ref] = ApplyFailure(manifest.digest, observed.version, failure, attempts, now, now + delay)

    def made(self, namespace: str, now: float) -> None:
        """A namespace was made: what failed for want of it need not wait."""
        for ref, trouble in self.troubles.items():
            if ref.namespace == namespace:
                self.troubles[ref] = replace(trouble, due=min(trouble.due, now))

    def keep_only(self, refs: frozenset[ObjectRef]) -> None:
        """A pass begins: forget what the work is no longer about."""
        for kept in (self.settled, self.troubles, self.repairs):
            for ref in [ref for ref in kept if ref not in refs]:
                del kept[ref]
        self.resting.clear()

    def due(self) -> float | None:
        """When the next manifest is to be tried that failed or was left alone."""
        return min((*(trouble.due for trouble in self.troubles.values()), *self.resting.values()), default=None)


def _namespace_terminates(error: Exception) -> bool:
    """Whether the namespace is being removed: it may soon be there anew."""
    return isinstance(error, StatusError) and any(cause.get("reason") == TERMINATING for cause in error.causes)
