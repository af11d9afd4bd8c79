"""What is done about one object: found or not, wanted or not, and whether the policy only informs or also enforces.

An object that exists and differs is first sent to the server as a dry run: only the server knows its defaults, so what it would
not change does not differ. Of what it refuses to update (immutable fields) the policy says so or, if the template allows that,
deletes and creates the object anew. Somebody else's write in between is met by reading the object again and comparing anew.

Objects that were read are shared and never changed; they lack kubectl's last-applied annotation, so that what is written is made of
a fresh read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from muster.api.policy.v1 import RelatedObject, RelatedProperties
from muster.machinery.clock import Clock, sleep
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object
from muster.policy.comparison import Comparison, ComparisonError, compare, identical, without_noise
from muster.policy.configuration import diffs, results
from muster.policy.configuration.definitions import Definition
from muster.policy.configuration.evaluated import EvaluatedObjects, Verdict
from muster.policy.configuration.interfaces import ObjectClient
from muster.policy.configuration.related import related_object, was_created
from muster.policy.configuration.results import ObjectEvent, ObjectResult
from muster.policy.configuration.server_errors import (
    is_answer_to_object,
    is_invalid,
    is_strict_decoding,
    namespace_hinders,
    shown,
)
from muster.policy.resolver.interfaces import ObjectSource
from muster.runtime.cache import Selection
from muster.runtime.client import AlreadyExists, BadRequest, Conflict, KubeError, NotFound
from muster.runtime.client.builtin import NAMESPACES

RECREATE_TRIES: Final = 3
RECREATE_INTERVAL: Final = 1.0
CONFLICT_TRIES: Final = 5
_RECREATABLE: Final = frozenset(("Always", "IfRequired"))

log = get_logger("muster.policy")


@dataclass(frozen=True)
class Target:
    """An object that a template means by its name."""

    definition: Definition
    resource: GVR
    desired: Object
    name: str
    namespace: str
    existing: Object | None
    enforce: bool
    sensitive: bool
    """Whether what templates read may not be shown."""

    @property
    def prefix(self) -> str:
        return f"{self.resource.plural} [{self.name}]{f' in namespace {self.namespace}' if self.resource.namespaced else ''}"

    @property
    def identifier(self) -> str:
        return f"{self.resource.plural} [{self.name}]{f' in namespace {self.namespace}' if self.namespace else ''}"


@dataclass(frozen=True)
class _Outcome:
    """What came of comparing an object and, if so, of setting it right."""

    violation: bool
    message: str = ""
    diff: str = ""
    tried: bool = False
    """Whether an update was called for."""
    updated: Object | None = None
    matches_after_dry_run: bool = False
    recreated: bool = False
    error: Exception | None = None


@dataclass(frozen=True)
class Remediation:
    """Sets objects of one policy right, or says what is wrong with them."""

    policy_uid: str
    client: ObjectClient
    source: ObjectSource
    evaluated: EvaluatedObjects
    clock: Clock
    watching: bool
    full_diffs: bool
    previous: tuple[RelatedObject, ...]
    on_compared: Callable[[str, str, float], None]

    async def of(self, target: Target) -> ObjectResult:
        if target.existing is None:
            if target.definition.is_mustnothave:
                return _result(target, (ObjectEvent(True, results.ABSENT),))
            return await self._missing(target)
        if target.definition.is_mustnothave:
            return await self._unwanted(target)
        return await self._found(target, target.existing)

    async def _missing(self, target: Target) -> ObjectResult:
        missing = ObjectEvent(False, results.NOT_FOUND)
        if not target.enforce:
            return _result(target, (missing,))
        try:
            created = await self.client.create(target.resource, target.desired, target.namespace, field_validation="Strict")
        except AlreadyExists as error:
            # What was read is older than what is there.
            existing = await self._fresh(target)
            if existing is not None:
                return await self._found(target, existing)
            return await self._not_created(target, missing, error)
        except KubeError as error:
            return await self._not_created(target, missing, error)
        message = f"{target.identifier} was created successfully"
        if target.definition.has_status:
            event = ObjectEvent(
                False,
                results.CREATED + results.STATUS_UNCHECKED,
                f"{message}, the status of the object will be verified in the next evaluation",
            )
        else:
            event = ObjectEvent(True, results.CREATED, message)
        uid = created["metadata"].get("uid") or ""
        return _result(target, (missing, event), RelatedProperties(created_by_policy=True, uid=uid))

    async def _not_created(self, target: Target, missing: ObjectEvent, error: KubeError) -> ObjectResult:
        message = f"{target.identifier} is missing, and cannot be created, reason: `{shown(error, target.sensitive)}`"
        cause: Exception | None = error
        if self.watching and target.resource.namespaced and namespace_hinders(error):
            cause = await self._await_namespace(target.namespace)
        return _result(target, (missing, ObjectEvent(False, results.CREATE_ERROR, message)), error=cause)

    async def _await_namespace(self, namespace: str) -> Exception | None:
        """The namespace is followed from now on, and its coming evaluates the policy again; failing that, it is tried again."""
        try:
            await self.source.read(Selection(NAMESPACES, name=namespace))
        except KubeError as error:
            return error
        return None

    async def _unwanted(self, target: Target) -> ObjectResult:
        if not target.enforce:
            return _result(target, (ObjectEvent(False, results.UNWANTED),))
        try:
            await self.client.delete(target.resource, target.name, target.namespace)
        except NotFound:
            pass
        except KubeError as error:
            message = f"{target.identifier} exists, and cannot be deleted, reason: `{shown(error, target.sensitive)}`"
            return _result(target, (ObjectEvent(False, results.DELETE_ERROR, message),), error=error)
        return _result(target, (ObjectEvent(True, results.DELETED, f"{target.identifier} was deleted successfully"),))

    async def _found(self, target: Target, existing: Object) -> ObjectResult:
        uid = existing["metadata"].get("uid") or ""
        created = False
        known = self.evaluated.verdict(self.policy_uid, existing, target.definition.template)
        if known is not None:
            outcome = self._remembered(uid, known)
        else:
            outcome = await self._compared(target, existing)
            if outcome.updated is not None and (outcome.updated["metadata"].get("uid") or "") != uid:
                created = was_created(self.previous, uid) if outcome.recreated else True
                uid = outcome.updated["metadata"].get("uid") or ""
        events = []
        if outcome.tried:
            events.append(ObjectEvent(False, results.NO_MATCH))
        if outcome.violation and outcome.message:
            events.append(ObjectEvent(False, results.UPDATE_ERROR, outcome.message))
        elif outcome.violation:
            events.append(ObjectEvent(False, results.NO_MATCH))
        else:
            changed = target.enforce and outcome.updated is not None
            events.append(ObjectEvent(True, results.UPDATED if changed else results.FOUND))
        properties = RelatedProperties(
            created_by_policy=created, uid=uid, diff=outcome.diff, matches_after_dry_run=outcome.matches_after_dry_run
        )
        return _result(target, tuple(events), properties, error=outcome.error)

    def _remembered(self, uid: str, known: Verdict) -> _Outcome:
        for entry in self.previous:
            if entry.properties is not None and entry.properties.uid == uid:
                return _Outcome(
                    not known.compliant,
                    known.message,
                    entry.properties.diff,
                    matches_after_dry_run=entry.properties.matches_after_dry_run,
                )
        return _Outcome(not known.compliant, known.message)

    async def _compared(self, target: Target, existing: Object) -> _Outcome:
        began = self.clock.monotonic()
        try:
            return await self._compare(target, existing)
        finally:
            self.on_compared(target.namespace, target.name, self.clock.monotonic() - began)

    async def _compare(self, target: Target, existing: Object) -> _Outcome:
        for _ in range(CONFLICT_TRIES):
            try:
                return await self._compare_once(target, existing)
            except Conflict as error:
                conflict = error
                fresh = await self._fresh(target)
                if fresh is None:
                    break
                existing = fresh
        return self._refused(target, conflict, mismatch=True)

    async def _compare_once(self, target: Target, existing: Object) -> _Outcome:
        """Raises Conflict when somebody else wrote in between."""
        definition = target.definition
        try:
            comparison = compare(
                target.desired,
                existing,
                compliance=definition.compliance,
                metadata_compliance=definition.metadata_compliance,
            )
        except ComparisonError as error:
            return _Outcome(True, error.without_values if target.sensitive else str(error), tried=True)
        plain = without_noise(existing)
        mode = diffs.diff_mode(definition.record_diff, definition.group, definition.kind, sensitive=target.sensitive)
        status_diff = self._diff(mode, target, plain, comparison.merged) if comparison.status_mismatch else ""
        if not comparison.mismatch and not comparison.missing_key:
            self._record(target, existing, Verdict(not comparison.status_mismatch))
            return _Outcome(comparison.status_mismatch, diff=status_diff)
        return await self._dry_run(target, existing, plain, comparison, mode, status_diff)

    async def _dry_run(
        self, target: Target, existing: Object, plain: Object, comparison: Comparison, mode: str, status_diff: str
    ) -> _Outcome:
        recreate = target.definition.recreate_option == "Always"
        try:
            answer = await self.client.update(target.resource, comparison.merged, dry_run=True, field_validation="Strict")
        except Conflict:
            raise
        except KubeError as error:
            if not is_invalid(error):
                refused = self._refused(target, error, mismatch=comparison.mismatch)
                if isinstance(error, BadRequest):
                    self._record(target, existing, Verdict(False, refused.message))
                return refused
            diff = self._diff(mode, target, plain, comparison.merged)
            if not target.enforce or target.definition.recreate_option not in _RECREATABLE:
                return self._immutable(target, existing, diff)
            recreate = True
        else:
            if identical(without_noise(answer), plain):
                self._record(target, existing, Verdict(not comparison.status_mismatch))
                if not comparison.status_mismatch:
                    return _Outcome(False, matches_after_dry_run=True)
                return _Outcome(True, diff=status_diff, tried=comparison.mismatch)
            diff = self._diff(mode, target, plain, answer)
        if not target.enforce:
            self._record(target, existing, Verdict(False))
            return _Outcome(True, diff=diff)
        write = self._recreate if recreate else self._update
        return await write(target, comparison, diff)

    def _immutable(self, target: Target, existing: Object, diff: str) -> _Outcome:
        message = ""
        if target.enforce:
            message = (
                f"{target.prefix} cannot be updated, likely due to immutable fields not matching, you may set "
                'spec["object-templates"][].recreateOption to recreate the object'
            )
        self._record(target, existing, Verdict(False, message))
        return _Outcome(True, message, diff)

    async def _update(self, target: Target, comparison: Comparison, diff: str) -> _Outcome:
        definition = target.definition
        try:
            fresh = await self.client.get(target.resource, target.name, target.namespace)
            wanted = compare(
                target.desired, fresh, compliance=definition.compliance, metadata_compliance=definition.metadata_compliance
            )
            updated = await self.client.update(target.resource, wanted.merged, field_validation="Strict")
        except Conflict:
            raise
        except ComparisonError as error:
            return _Outcome(True, error.without_values if target.sensitive else str(error), tried=True)
        except KubeError as error:
            return replace(self._refused(target, error, mismatch=comparison.mismatch, action="update"), diff=diff)
        return self._written(target, comparison, updated, diff)

    async def _recreate(self, target: Target, comparison: Comparison, diff: str) -> _Outcome:
        try:
            await self.client.delete(target.resource, target.name, target.namespace)
        except NotFound:
            pass
        except KubeError as error:
            message = f"{target.prefix} failed to delete when recreating with the error {shown(error, target.sensitive)}"
            return _Outcome(True, message, tried=comparison.mismatch, error=error)
        for attempt in range(1, RECREATE_TRIES + 1):
            try:
                created = await self.client.create(target.resource, target.desired, target.namespace)
            except AlreadyExists:
                if attempt < RECREATE_TRIES:
                    await sleep(self.clock, RECREATE_INTERVAL)
            except KubeError as error:
                return replace(self._refused(target, error, mismatch=comparison.mismatch, action="recreate"), diff=diff)
            else:
                return replace(self._written(target, comparison, created, diff), recreated=True)
        message = (
            f"{target.prefix} timed out waiting for the object to delete during recreate, will retry on the next policy evaluation"
        )
        return _Outcome(True, message, tried=comparison.mismatch)

    def _written(self, target: Target, comparison: Comparison, written: Object, diff: str) -> _Outcome:
        if not comparison.status_mismatch:
            self._record(target, written, Verdict(True))
        return _Outcome(comparison.status_mismatch, diff=diff, tried=comparison.mismatch, updated=written)

    def _refused(self, target: Target, error: KubeError, *, mismatch: bool, action: str = "") -> _Outcome:
        """Without an action, a dry run was refused."""
        text = shown(error, target.sensitive)
        if isinstance(error, NotFound):
            message = f"`{target.definition.kind}` is not present and must be created"
        elif is_strict_decoding(error):
            message = f"Error validating the object {target.name}, the error is `{text}`"
        elif not action:
            message = f"Error issuing a dry run update request for the object `{target.name}`, the error is `{text}`"
        else:
            message = f"{target.prefix} failed to {action} with the error `{text}`"
        # An object that the server cannot read was not found to differ: only the error is told.
        tried = mismatch and not is_strict_decoding(error)
        return _Outcome(True, message, tried=tried, error=None if is_answer_to_object(error) else error)

    async def _fresh(self, target: Target) -> Object | None:
        try:
            return await self.client.get(target.resource, target.name, target.namespace)
        except KubeError:
            return None

    def _record(self, target: Target, obj: Object, verdict: Verdict) -> None:
        self.evaluated.record(self.policy_uid, obj, target.definition.template, verdict)

    def _diff(self, mode: str, target: Target, plain: Object, updated: Object) -> str:
        if mode == diffs.NONE:
            return ""
        if mode == diffs.CENSORED:
            return diffs.CENSORED_TEXT
        diff = diffs.unified_diff(plain, without_noise(updated), full=self.full_diffs)
        if mode == diffs.LOG:
            log.info("object differs", kind=target.definition.kind, namespace=target.namespace, name=target.name, diff=diff)
            return ""
        return diff


def _result(
    target: Target,
    events: tuple[ObjectEvent, ...],
    properties: RelatedProperties | None = None,
    *,
    error: Exception | None = None,
) -> ObjectResult:
    last = events[-1]
    related = related_object(
        target.resource,
        target.desired.get("kind") or target.definition.kind,
        target.namespace,
        target.name,
        compliant=last.compliant,
        reason=last.reason,
        properties=properties,
    )
    return ObjectResult(events, (target.name,), (related,), error)
