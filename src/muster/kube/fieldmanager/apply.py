"""Server-side apply: merges a configuration into the live object, with conflicts for fields of other managers. Follows
structured-merge-diff's `merge.Updater.Apply`.

The applier owns exactly the fields of its configuration. Fields that it applied before and dropped now are removed, unless another
manager owns them too. Changing a field of another owner is a conflict, unless forced. `kubectl` has one privilege: it may take
fields that its own client-side apply recorded in the last-applied annotation, which is then kept up to date. The result is the
merged object and its managedFields; arguments are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from msgspec.structs import replace

from muster.kube.fieldmanager.atoms import Atom, atom_of
from muster.kube.fieldmanager.fieldset import (
    FieldSet,
    Path,
    difference,
    from_paths,
    has,
    intersection,
    path_text,
    paths,
    recursive_difference,
    union,
)
from muster.kube.fieldmanager.managedfields import (
    APPLY,
    UPDATE,
    Convert,
    ManagedFieldsEntry,
    ManagedFieldsError,
    Managers,
    VersionedComparison,
    decode,
    encode,
    managed_fields_of,
    reconcile_with_schema_changes,
    record_update,
    strip_meta,
    update_managers,
    without_managed_fields,
)
from muster.kube.fieldmanager.overlay import merge, remove, with_named_fields
from muster.kube.fieldmanager.typed import TypedError, check, compare, fields_of
from muster.kube.names import ANNOTATIONS_LIMIT, annotations_size
from muster.kube.schema_node import Schema
from muster.machinery.golang.json import encode_json
from muster.machinery.golang.quoting import quote

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"


class InvalidApply(ValueError):
    """The request itself is invalid (400)."""


class ApplyFailed(ValueError):
    """The configuration cannot be merged into the object (500, with this text)."""


class ApplyConflict(Exception):
    """Other managers own changed fields. `conflicts` are (owner, path) in display order."""

    def __init__(self, conflicts: list[tuple[ManagedFieldsEntry, Path]]) -> None:
        self.conflicts = conflicts
        super().__init__(self._message())

    @property
    def causes(self) -> list[tuple[str, str]]:
        """(message, field) of each conflict, for the Status."""
        return [(f"conflict with {describe(owner)}", path_text(path)) for owner, path in self.conflicts]

    def _message(self) -> str:
        if len(self.conflicts) == 1:
            owner, path = self.conflicts[0]
            return f"Apply failed with 1 conflict: conflict with {describe(owner)}: {path_text(path)}"
        lines: list[str] = []
        shown: ManagedFieldsEntry | None = None
        for owner, path in self.conflicts:
            if owner is not shown:
                lines.append(f"conflicts with {describe(owner)}:")
                shown = owner
            lines.append(f"- {path_text(path)}")
        return f"Apply failed with {len(self.conflicts)} conflicts: " + "\n".join(lines)


def describe(owner: ManagedFieldsEntry) -> str:
    """An owner in a conflict message. Updates include their API version."""
    text = quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {quote(owner.subresource)}"
    return f"{text} using {owner.api_version}" if owner.operation == UPDATE else text


def apply(
    live: Mapping[str, Any] | None,
    applied: Mapping[str, Any],
    schema: Schema,
    *,
    manager: str,
    api_version: str,
    now: str,
    force: bool = False,
    subresource: str = "",
    reset: FieldSet | None = None,
    empty: Mapping[str, Any] | None = None,
    convert: Convert | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The object after the apply (without managedFields), and its managedFields.

    `live` is None if the object does not exist yet. The other arguments are those of `managedfields.track`. Raises ApplyConflict,
    InvalidApply, ApplyFailed.
    """
    if managed_fields_of(applied) is not None:
        raise InvalidApply("metadata.managedFields must be nil")
    request = _Request(atom_of(schema, root=True), manager, api_version, now, subresource, reset, convert)
    try:
        managers = decode(managed_fields_of(live), trusted=True)
    except ManagedFieldsError as problem:
        raise ApplyFailed(f"failed to decode managed fields: {problem}") from problem
    base = without_managed_fields(live) if live is not None else dict(empty or {})
    try:
        if not managers and live is not None:
            managers = request.before_first_apply(base, empty or {})
        try:
            merged, managers = request.apply(base, applied, managers, force)
        except ApplyConflict as conflict:
            if manager != _KUBECTL:
                raise
            request.drop_allowed_conflicts(conflict, base)
            merged, managers = request.apply(base, applied, managers, True)
    except TypedError as problem:
        raise ApplyFailed(str(problem)) from problem
    if live is None:
        merged = dict(applied)
    if manager == _KUBECTL:
        merged = _with_last_applied(merged, applied)
    return merged, encode(managers)


class _Request:
    def __init__(
        self,
        atom: Atom,
        manager: str,
        api_version: str,
        now: str,
        subresource: str,
        reset: FieldSet | None,
        convert: Convert | None,
    ) -> None:
        self.atom = atom
        self.manager = manager
        self.api_version = api_version
        self.now = now
        self.subresource = subresource
        self.reset = reset
        self.convert = convert

    def before_first_apply(self, live: dict[str, Any], empty: Mapping[str, Any]) -> Managers:
        """An object without managedFields: its existing fields are assigned to an update manager of that name."""
        return record_update(
            {},
            self.atom,
            empty,
            live,
            manager=_BEFORE_FIRST_APPLY,
            api_version=self.api_version,
            subresource=self.subresource,
            now=self.now,
            reset=self.reset,
            convert=self.convert,
        )

    def apply(
        self, live: dict[str, Any], applied: Mapping[str, Any], managers: Managers, force: bool
    ) -> tuple[dict[str, Any], Managers]:
        try:
            check(self.atom, applied)
        except TypedError as problem:
            raise ApplyFailed(f"failed to create typed patch object ({_name(applied)}): {problem}") from problem
        managers = reconcile_with_schema_changes(managers, self.atom, self.api_version, self.convert, live)
        merged = merge(self.atom, live, applied)
        mentioned = fields_of(self.atom, applied)
        if self.reset:
            mentioned = recursive_difference(mentioned, self.reset)
        mine = ManagedFieldsEntry(self.manager or "unknown", APPLY, self.api_version, self.subresource, mentioned)
        last = managers.get(mine.key)
        managers[mine.key] = mine
        if last is not None and (last.api_version != self.api_version or difference(last.fields, mentioned)):
            merged = self._prune(merged, last, managers)
        change = VersionedComparison(self.atom, live, merged, self.api_version, self.reset, self.convert)
        left, taken = update_managers(managers, change, mine.key)
        if taken and not force:
            owners = sorted((managers[key] for key in taken), key=lambda owner: owner.identity)
            raise ApplyConflict([(owner, path) for owner in owners for path in paths(taken[owner.key])])
        owned = strip_meta(mentioned)
        if owned:
            before = last.time if last is not None else None
            left[mine.key] = replace(mine, fields=owned, time=self.now if merged != live else before)
        else:
            left.pop(mine.key, None)
        return merged, left

    def _at(self, obj: dict[str, Any], api_version: str) -> tuple[dict[str, Any], Atom] | None:
        if self.convert is None or obj.get("apiVersion", self.api_version) == api_version:
            return obj, self.atom
        found = self.convert(obj, api_version)
        return None if found is None else (found[0], atom_of(found[1], root=True))

    def _prune(self, merged: dict[str, Any], last: ManagedFieldsEntry, managers: Managers) -> dict[str, Any]:
        """The merged object without fields that this applier owned before and that have no owner now."""
        view = self._at(merged, last.api_version)
        if view is None:
            return merged
        whole, atom = view
        pruned = remove(atom, whole, with_named_fields(atom, last.fields)) or {}
        pruned = self._add_back_owned_items(whole, pruned, last.api_version, managers)
        had, has_now = fields_of(atom, whole), fields_of(atom, pruned)
        gone = difference(with_named_fields(atom, had), with_named_fields(atom, has_now))
        result = remove(atom, whole, intersection(gone, with_named_fields(atom, last.fields))) or {}
        back = self._at(result, self.api_version)
        return merged if back is None else back[0]

    def _add_back_owned_items(
        self, whole: dict[str, Any], pruned: dict[str, Any], version: str, managers: Managers
    ) -> dict[str, Any]:
        """Restore what was pruned although a manager (including the applier's new configuration) owns it."""
        owned: dict[str, FieldSet] = {}
        for owner in managers.values():
            at = version if self.convert is None else owner.api_version
            owned[at] = union(owned.get(at, {}), owner.fields)
        for at in sorted(owned, key=lambda name: name != version):
            whole_view, pruned_view = self._at(whole, at), self._at(pruned, at)
            if whole_view is None or pruned_view is None:
                continue
            whole, atom = whole_view
            had = with_named_fields(atom, fields_of(atom, whole))
            kept = with_named_fields(atom, fields_of(atom, pruned_view[0]))
            drop = difference(had, union(kept, with_named_fields(atom, owned[at])))
            pruned = remove(atom, whole, drop) or {}
        back = self._at(pruned, version)
        return pruned if back is None else back[0]

    def drop_allowed_conflicts(self, conflict: ApplyConflict, live: dict[str, Any]) -> None:
        """Returns if every conflict is about a field of client-side apply that was not changed since; else raises the rest."""
        allowed = self._client_side_applied(live)
        if allowed is None:
            raise conflict
        if difference(from_paths(path for _, path in conflict.conflicts), allowed):
            raise ApplyConflict([(owner, path) for owner, path in conflict.conflicts if not has(allowed, path)])

    def _client_side_applied(self, live: dict[str, Any]) -> FieldSet | None:
        text = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
        if not text:
            return None
        try:
            recorded = orjson.loads(text)
            if not isinstance(recorded, dict) or recorded.get("apiVersion") != self.api_version:
                return None
            check(self.atom, live)
            check(self.atom, recorded)
            seen = compare(self.atom, recorded, live)
        except ValueError:
            return None
        return difference(difference(fields_of(self.atom, recorded), seen.changed), seen.removed)


def _name(applied: Mapping[str, Any]) -> str:
    metadata = applied.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    group, _, version = str(applied.get("apiVersion", "")).rpartition("/")
    return f"{named.get('namespace', '')}/{named.get('name', '')}; {group}/{version}, Kind={applied.get('kind', '')}"


def _with_last_applied(merged: dict[str, Any], applied: Mapping[str, Any]) -> dict[str, Any]:
    """Update kubectl's last-applied annotation, if there is one."""
    annotations = (merged.get("metadata") or {}).get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return merged
    recorded = dict(applied)
    metadata = dict(recorded.get("metadata") or {})
    if metadata.get("annotations") is not None:
        metadata["annotations"] = {key: value for key, value in metadata["annotations"].items() if key != LAST_APPLIED}
    recorded["metadata"] = metadata
    updated = {**annotations, LAST_APPLIED: encode_json(recorded) + "\n"}
    if annotations_size(updated) > ANNOTATIONS_LIMIT:
        del updated[LAST_APPLIED]
    return {**merged, "metadata": {**merged["metadata"], "annotations": updated}}


__all__ = ["LAST_APPLIED", "ApplyConflict", "ApplyFailed", "InvalidApply", "apply", "describe"]
