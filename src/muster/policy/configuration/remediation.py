"""Remediation of one object: existing or not, desired or not, and informed or enforced.

An object that exists and differs is first updated as a dry run: only the server knows its defaults, so fields that it would not
change do not differ. If the server refuses the update (immutable fields), the policy reports that or, if the template allows it,
deletes and recreates the object. After a conflict, the object is read and compared again.

Objects from caches are shared and never changed; they lack kubectl's last-applied annotation, so writes start from a fresh read.
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
from muster.policy.configuration.evaluation_cache import CompareResult, EvaluationCache
from muster.policy.configuration.interfaces import ObjectClient
from muster.policy.configuration.related import related_object, was_created
from muster.policy.configuration.results import ObjectEvent, ObjectResult
from muster.policy.configuration.server_errors import (
    error_text,
    is_invalid,
    is_namespace_missing,
    is_permanent,
    is_strict_decoding,
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
class TargetObject:
    """An object that a template names."""

    definition: Definition
    resource: GVR
    desired: Object
    name: str
    namespace: str
    existing: Object | None
    enforce: bool
    sensitive: bool
    """Whether values read by templates must not be shown."""

    @property
    def prefix(self) -> str:
        return f"{self.resource.plural} [{self.name}]{f' in namespace {self.namespace}' if self.resource.namespaced else ''}"

    @property
    def identifier(self) -> str:
        return f"{self.resource.plural} [{self.name}]{f' in namespace {self.namespace}' if self.namespace else ''}"


@dataclass(frozen=True)
class _UpdateResult:
    """The result of comparing and possibly updating an object."""

    violation: bool
    message: str = ""
    diff: str = ""
    update_attempted: bool = False
    """Whether an update was necessary."""
    updated: Object | None = None
    matches_after_dry_run: bool = False
    recreated: bool = False
    error: Exception | None = None


@dataclass(frozen=True)
class Remediation:
    """Remediates objects of one policy, or reports their differences."""

    policy_uid: str
    client: ObjectClient
    source: ObjectSource
    evaluated: EvaluationCache
    clock: Clock
    watching: bool
    full_diffs: bool
    previous: tuple[RelatedObject, ...]
    on_compared: Callable[[str, str, float], None]

    async def remediate(self, target: TargetObject) -> ObjectResult:
        if target.existing is None:
            if target.definition.is_mustnothave:
                return _result(target, (ObjectEvent(True, results.ABSENT),))
            return await self._missing(target)
        if target.definition.is_mustnothave:
            return await self._unwanted(target)
        return await self._found(target, target.existing)

    async def _missing(self, target: TargetObject) -> ObjectResult:
        missing = ObjectEvent(False, results.NOT_FOUND)
        if not target.enforce:
            return _result(target, (missing,))
        try:
            created = await self.client.create(target.resource, target.desired, target.namespace, field_validation="Strict")
        except AlreadyExists as error:
            # The cache is older than the object.
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

    async def _not_created(self, target: TargetObject, missing: ObjectEvent, error: KubeError) -> ObjectResult:
        message = f"{target.identifier} is missing, and cannot be created, reason: `{error_text(error, target.sensitive)}`"
        cause: Exception | None = error
        if self.watching and target.resource.namespaced and is_namespace_missing(error):
            cause = await self._await_namespace(target.namespace)
        return _result(target, (missing, ObjectEvent(False, results.CREATE_ERROR, message)), error=cause)

    async def _await_namespace(self, namespace: str) -> Exception | None:
        """The namespace is watched from now on, and its creation evaluates the policy again; if it cannot be watched, the
        evaluation is retried."""
        try:
            await self.source.read(Selection(NAMESPACES, name=namespace))
        except KubeError as error:
            return error
        return None

    async def _unwanted(self, target: TargetObject) -> ObjectResult:
        if not target.enforce:
            return _result(target, (ObjectEvent(False, results.UNWANTED),))
        try:
            await self.client.delete(target.resource, target.name, target.namespace)
        except NotFound:
            pass
        except KubeError as error:
            message = f"{target.identifier} exists, and cannot be deleted, reason: `{error_text(error, target.sensitive)}`"
            return _result(target, (ObjectEvent(False, results.DELETE_ERROR, message),), error=error)
        return _result(target, (ObjectEvent(True, results.DELETED, f"{target.identifier} was deleted successfully"),))

    async def _found(self, target: TargetObject, existing: Object) -> ObjectResult:
        uid = existing["metadata"].get("uid") or ""
        created = False
        known = self.evaluated.get(self.policy_uid, existing, target.definition.template)
        if known is not None:
            update = self._cached(uid, known)
        else:
            update = await self._compared(target, existing)
            if update.updated is not None and (update.updated["metadata"].get("uid") or "") != uid:
                created = was_created(self.previous, uid) if update.recreated else True
                uid = update.updated["metadata"].get("uid") or ""
        events = []
        if update.update_attempted:
            events.append(ObjectEvent(False, results.NO_MATCH))
        if update.violation and update.message:
            events.append(ObjectEvent(False, results.UPDATE_ERROR, update.message))
        elif update.violation:
            events.append(ObjectEvent(False, results.NO_MATCH))
        else:
            changed = target.enforce and update.updated is not None
            events.append(ObjectEvent(True, results.UPDATED if changed else results.FOUND))
        properties = RelatedProperties(
            created_by_policy=created, uid=uid, diff=update.diff, matches_after_dry_run=update.matches_after_dry_run
        )
        return _result(target, tuple(events), properties, error=update.error)

    def _cached(self, uid: str, known: CompareResult) -> _UpdateResult:
        for entry in self.previous:
            if entry.properties is not None and entry.properties.uid == uid:
                return _UpdateResult(
                    not known.compliant,
                    known.message,
                    entry.properties.diff,
                    matches_after_dry_run=entry.properties.matches_after_dry_run,
                )
        return _UpdateResult(not known.compliant, known.message)

    async def _compared(self, target: TargetObject, existing: Object) -> _UpdateResult:
        began = self.clock.monotonic()
        try:
            return await self._compare(target, existing)
        finally:
            self.on_compared(target.namespace, target.name, self.clock.monotonic() - began)

    async def _compare(self, target: TargetObject, existing: Object) -> _UpdateResult:
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

    async def _compare_once(self, target: TargetObject, existing: Object) -> _UpdateResult:
        """Raises Conflict if the object was changed meanwhile."""
        definition = target.definition
        try:
            comparison = compare(
                target.desired,
                existing,
                compliance=definition.compliance,
                metadata_compliance=definition.metadata_compliance,
            )
        except ComparisonError as error:
            return _UpdateResult(True, error.without_values if target.sensitive else str(error), update_attempted=True)
        plain = without_noise(existing)
        mode = diffs.diff_mode(definition.record_diff, definition.group, definition.kind, sensitive=target.sensitive)
        status_diff = self._diff(mode, target, plain, comparison.merged) if comparison.status_mismatch else ""
        if not comparison.mismatch and not comparison.missing_key:
            self._record(target, existing, CompareResult(not comparison.status_mismatch))
            return _UpdateResult(comparison.status_mismatch, diff=status_diff)
        return await self._dry_run(target, existing, plain, comparison, mode, status_diff)

    async def _dry_run(
        self, target: TargetObject, existing: Object, plain: Object, comparison: Comparison, mode: str, status_diff: str
    ) -> _UpdateResult:
        recreate = target.definition.recreate_option == "Always"
        try:
            answer = await self.client.update(target.resource, comparison.merged, dry_run=True, field_validation="Strict")
        except Conflict:
            raise
        except KubeError as error:
            if not is_invalid(error):
                refused = self._refused(target, error, mismatch=comparison.mismatch)
                if isinstance(error, BadRequest):
                    self._record(target, existing, CompareResult(False, refused.message))
                return refused
            diff = self._diff(mode, target, plain, comparison.merged)
            if not target.enforce or target.definition.recreate_option not in _RECREATABLE:
                return self._immutable(target, existing, diff)
            recreate = True
        else:
            if identical(without_noise(answer), plain):
                self._record(target, existing, CompareResult(not comparison.status_mismatch))
                if not comparison.status_mismatch:
                    return _UpdateResult(False, matches_after_dry_run=True)
                return _UpdateResult(True, diff=status_diff, update_attempted=comparison.mismatch)
            diff = self._diff(mode, target, plain, answer)
        if not target.enforce:
            self._record(target, existing, CompareResult(False))
            return _UpdateResult(True, diff=diff)
        write = self._recreate if recreate else self._update
        return await write(target, comparison, diff)

    def _immutable(self, target: TargetObject, existing: Object, diff: str) -> _UpdateResult:
        message = ""
        if target.enforce:
            message = (
                f"{target.prefix} cannot be updated, likely due to immutable fields not matching, you may set "
                'spec["object-templates"][].recreateOption to recreate the object'
            )
        self._record(target, existing, CompareResult(False, message))
        return _UpdateResult(True, message, diff)

    async def _update(self, target: TargetObject, comparison: Comparison, diff: str) -> _UpdateResult:
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
            return _UpdateResult(True, error.without_values if target.sensitive else str(error), update_attempted=True)
        except KubeError as error:
            return replace(self._refused(target, error, mismatch=comparison.mismatch, action="update"), diff=diff)
        return self._written(target, comparison, updated, diff)

    async def _recreate(self, target: TargetObject, comparison: Comparison, diff: str) -> _UpdateResult:
        try:
            await self.client.delete(target.resource, target.name, target.namespace)
        except NotFound:
            pass
        except KubeError as error:
            message = f"{target.prefix} failed to delete when recreating with the error {error_text(error, target.sensitive)}"
            return _UpdateResult(True, message, update_attempted=comparison.mismatch, error=error)
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
        return _UpdateResult(True, message, update_attempted=comparison.mismatch)

    def _written(self, target: TargetObject, comparison: Comparison, written: Object, diff: str) -> _UpdateResult:
        if not comparison.status_mismatch:
            self._record(target, written, CompareResult(True))
        return _UpdateResult(comparison.status_mismatch, diff=diff, update_attempted=comparison.mismatch, updated=written)

    def _refused(self, target: TargetObject, error: KubeError, *, mismatch: bool, action: str = "") -> _UpdateResult:
        """Without an action, a dry run was refused."""
        text = error_text(error, target.sensitive)
        if isinstance(error, NotFound):
            message = f"`{target.definition.kind}` is not present and must be created"
        elif is_strict_decoding(error):
            message = f"Error validating the object {target.name}, the error is `{text}`"
        elif not action:
            message = f"Error issuing a dry run update request for the object `{target.name}`, the error is `{text}`"
        else:
            message = f"{target.prefix} failed to {action} with the error `{text}`"
        # An object that the server cannot decode was not compared: only the error is reported.
        update_attempted = mismatch and not is_strict_decoding(error)
        return _UpdateResult(True, message, update_attempted=update_attempted, error=None if is_permanent(error) else error)

    async def _fresh(self, target: TargetObject) -> Object | None:
        try:
            return await self.client.get(target.resource, target.name, target.namespace)
        except KubeError:
            return None

    def _record(self, target: TargetObject, obj: Object, result: CompareResult) -> None:
        self.evaluated.record(self.policy_uid, obj, target.definition.template, result)

    def _diff(self, mode: str, target: TargetObject, plain: Object, updated: Object) -> str:
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
    target: TargetObject,
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
