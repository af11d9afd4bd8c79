"""The entries of `metadata.managedFields`, and their update by ordinary writes. Follows apimachinery's `managedfields` package.

A `Managers` is the decoded list: one `ManagedFieldsEntry` per manager, operation, API version (updates only) and subresource.
`track` updates it for a create, update or patch: every changed field moves to the writer, removed fields are removed from all.
Invariants: an entry owns at least one field, at most ten entries are of updates (the oldest are merged into one), an entry's time
changes only when its manager changed the object, and entries are ordered as in the API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from muster.kube.fieldmanager.atoms import Atom, atom_of
from muster.kube.fieldmanager.fieldset import (
    SELF,
    FieldSet,
    FieldSetError,
    canonical,
    difference,
    in_order,
    intersection,
    recursive_difference,
    union,
    union_of,
)
from muster.kube.fieldmanager.overlay import reconcile_field_set_with_schema
from muster.kube.fieldmanager.typed import Comparison, TypedError, compare
from muster.kube.schema_node import Schema
from muster.machinery.golang.json import encode_json
from muster.machinery.golang.quoting import quote
from muster.machinery.golang.timestamps import format_time, parse_time

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MAX_UPDATE_MANAGERS: Final = 10
_ANCIENT: Final = "ancient-changes"
_SERVER_METADATA: Final = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_NEVER_OWNED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {SELF: {}, **{f"f:{name}": {} for name in _SERVER_METADATA}},
}

#: Manager, operation, API version (of updates) and subresource of an entry.
ManagerKey = tuple[str, str, str, str]
#: An object in another API version, with that version's schema; None where the version is gone.
Convert = Callable[[dict[str, Any], str], "tuple[dict[str, Any], Schema] | None"]


class ManagedFieldsError(ValueError):
    """Invalid entries."""


class ManagedFieldsEntry(msgspec.Struct, frozen=True, eq=False):
    """One entry: a manager of these fields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    fields: FieldSet
    time: str | None = None
    stored: dict[str, Any] | None = None
    """The entry this was read from, as long as nothing changed."""

    @property
    def key(self) -> ManagerKey:
        """What makes an entry its own: appliers keep theirs across versions."""
        return self.manager, self.operation, "" if self.operation == APPLY else self.api_version, self.subresource

    @property
    def identity(self) -> str:
        """The key as the API writes it, which decides the order among equals."""
        parts = [f'"manager":{encode_json(self.manager)}'] if self.manager else []
        parts.append(f'"operation":"{self.operation}"')
        if self.operation != APPLY:
            parts.append(f'"apiVersion":{encode_json(self.api_version)}')
        if self.subresource:
            parts.append(f'"subresource":{encode_json(self.subresource)}')
        return "{" + ",".join(parts) + "}"

    def owning(self, fields: FieldSet) -> ManagedFieldsEntry:
        """The same owner of other fields."""
        if fields is self.fields:
            return self
        return ManagedFieldsEntry(self.manager, self.operation, self.api_version, self.subresource, fields, self.time)

    def entry(self) -> dict[str, Any]:
        if self.stored is not None:
            return self.stored
        made: dict[str, Any] = {}
        if self.manager:
            made["manager"] = self.manager
        made["operation"] = self.operation
        made["apiVersion"] = self.api_version
        if self.time is not None:
            made["time"] = self.time
        made["fieldsType"] = "FieldsV1"
        made["fieldsV1"] = in_order(self.fields)
        if self.subresource:
            made["subresource"] = self.subresource
        return made


Managers = dict[ManagerKey, ManagedFieldsEntry]


def decode(entries: Any, trusted: bool = False) -> Managers:
    """Entries as owners. `trusted` entries come from the store, and their sets are canonical. Raises ManagedFieldsError."""
    managers: Managers = {}
    for index, entry in enumerate(entries or ()):
        if not isinstance(entry, dict):
            raise ManagedFieldsError("expected a map")
        operation, api_version = entry.get("operation", ""), entry.get("apiVersion", "")
        if operation not in (APPLY, UPDATE):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        if not api_version:
            raise ManagedFieldsError("apiVersion must not be empty")
        kind = entry.get("fieldsType", "")
        if not kind:
            raise ManagedFieldsError(f"missing fieldsType in managed fields entry {index}")
        if kind != "FieldsV1":
            raise ManagedFieldsError(f"invalid fieldsType {quote(kind)} in managed fields entry {index}")
        fields, time = entry.get("fieldsV1") or {}, entry.get("time")
        if not trusted:
            try:
                fields = canonical(fields)
                time = format_time(parse_time(time)) if time is not None else None
            except (FieldSetError, ValueError, TypeError) as problem:
                raise ManagedFieldsError(f"error decoding set: {problem}") from problem
        stored = entry if trusted else None
        owner = ManagedFieldsEntry(
            entry.get("manager", ""), operation, api_version, entry.get("subresource", ""), fields, time, stored
        )
        managers[owner.key] = owner
    return managers


def encode(managers: Managers) -> list[dict[str, Any]]:
    """Appliers first, then updaters, each by time."""
    found = sorted(managers.values(), key=lambda o: (o.operation, o.time or "", o.manager, o.api_version, o.subresource))
    return [owner.entry() for owner in found]


def is_reset(entries: Any) -> bool:
    """A client clears tracking with an empty list, or with one empty entry."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def managed_fields_of(obj: Mapping[str, Any] | None) -> Any:
    metadata = (obj or {}).get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def without_managed_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(obj)
    metadata = made.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        made["metadata"] = rest = dict(metadata)
        del rest["managedFields"]
    return made


def strip_meta(fields: FieldSet) -> FieldSet:
    """Without fields that are never owned: identity and system metadata of the object."""
    if "f:metadata" not in fields and "f:apiVersion" not in fields and "f:kind" not in fields:
        return fields
    return difference(fields, _NEVER_OWNED)


class VersionedComparison:
    """The changes of a write, in every API version of its managers."""

    def __init__(
        self,
        atom: Atom,
        old: Mapping[str, Any],
        new: Mapping[str, Any],
        api_version: str,
        reset: FieldSet | None,
        convert: Convert | None,
    ) -> None:
        self._old, self._new = without_managed_fields(old), without_managed_fields(new)
        self._reset = reset or {}
        self._convert = convert
        self.own = self._compare(atom, self._old, self._new)
        self._by_version: dict[str, Comparison | None] = {api_version: self.own}

    def _compare(self, atom: Atom, old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
        found = compare(atom, old, new)
        if self._reset:
            found.changed = recursive_difference(found.changed, self._reset)
            found.removed = recursive_difference(found.removed, self._reset)
        return found

    def at_version(self, api_version: str) -> Comparison | None:
        """The comparison in that version; None where the version is gone."""
        if self._convert is None:
            return self.own
        if api_version not in self._by_version:
            old, new = self._convert(self._old, api_version), self._convert(self._new, api_version)
            self._by_version[api_version] = (
                None if old is None or new is None else self._compare(atom_of(new[1], root=True), old[0], new[0])
            )
        return self._by_version[api_version]


def update_managers(
    managers: Managers, change: VersionedComparison, writer: ManagerKey | None
) -> tuple[Managers, dict[ManagerKey, FieldSet]]:
    """The managers after a write has taken its fields from all but `writer`, and the fields taken from each (removed fields not
    counted)."""
    left: Managers = {}
    taken: dict[ManagerKey, FieldSet] = {}
    for name, owner in managers.items():
        if name == writer:
            left[name] = owner
            continue
        seen = change.at_version(owner.api_version)
        if seen is None:
            continue
        fields = owner.fields
        if seen.changed and (lost := intersection(fields, seen.changed)):
            taken[name] = lost
            fields = difference(fields, lost)
        if seen.removed:
            fields = difference(fields, seen.removed)
        if fields:
            left[name] = owner.owning(fields)
    return left, taken


def reconcile_with_schema_changes(
    managers: Managers, atom: Atom, api_version: str, convert: Convert | None, live: dict[str, Any]
) -> Managers:
    """Managers with sets that match the current schema; those of removed versions are dropped."""
    made: Managers = {}
    for name, owner in managers.items():
        view = atom
        if convert is not None and owner.api_version != api_version:
            converted = convert(live, owner.api_version)
            if converted is None:
                continue
            view = atom_of(converted[1], root=True)
        made[name] = owner.owning(reconcile_field_set_with_schema(view, owner.fields))
    return made


def record_update(
    managers: Managers,
    atom: Atom,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    manager: str,
    api_version: str,
    subresource: str,
    now: str,
    reset: FieldSet | None,
    convert: Convert | None,
) -> Managers:
    """Owners after an update from old to new. Raises TypedError."""
    managers = reconcile_with_schema_changes(managers, atom, api_version, convert, dict(old))
    change = VersionedComparison(atom, old, new, api_version, reset, convert)
    managers, _ = update_managers(managers, change, None)
    gained = strip_meta(change.own.changed)
    if gained:
        writer = ManagedFieldsEntry(manager or "unknown", UPDATE, api_version, subresource, gained, now)
        before = managers.get(writer.key)
        managers[writer.key] = writer if before is None else writer.owning(union(gained, before.fields))
    return _cap_managers(managers)


def _cap_managers(managers: Managers) -> Managers:
    """At most ten updaters: the oldest of a version fold into one entry."""
    updaters = [name for name, owner in managers.items() if owner.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    managers = dict(managers)
    updaters.sort(key=lambda name: (managers[name].time or "", managers[name].identity))
    first: dict[str, ManagerKey] = {}
    folded: dict[ManagerKey, list[FieldSet]] = {}
    for name in updaters:
        if excess <= 0:
            break
        owner = managers[name]
        bucket = (_ANCIENT, UPDATE, owner.api_version, "")
        if owner.api_version not in first:
            first[owner.api_version] = name
            continue
        if bucket not in managers:
            managers[bucket] = replace(managers.pop(first[owner.api_version]), manager=_ANCIENT, subresource="", stored=None)
        del managers[name]
        folded.setdefault(bucket, [managers[bucket].fields]).append(owner.fields)
        managers[bucket] = replace(managers[bucket], time=owner.time, stored=None)
        excess -= 1
    for bucket, sets in folded.items():
        managers[bucket] = managers[bucket].owning(union_of(sets))
    return managers


def track(
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any],
    schema: Schema,
    *,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    reset: FieldSet | None = None,
    empty: Mapping[str, Any] | None = None,
    convert: Convert | None = None,
) -> list[dict[str, Any]]:
    """The managedFields of `new` after a create (`old` is None), update or patch.

    `new` may carry managedFields that the client wrote (they replace the stored ones, or reset them), except on a subresource.
    `reset` holds fields this endpoint never owns. `empty` is the object before it exists, for built-in types whose structs are
    always there. `convert` gives an object in another API version; without it all versions are taken to share their paths. An
    object that does not fit its schema is not tracked, as the API does.
    """
    try:
        managers = _decode_for_update(old, new, subresource)
        if not managers and old is not None:
            return []
        managers = record_update(
            managers,
            atom_of(schema, root=True),
            old if old is not None else (empty or {}),
            new,
            manager=manager,
            api_version=api_version,
            subresource=subresource,
            now=now,
            reset=reset,
            convert=convert,
        )
    except TypedError:
        return []
    return encode(managers)


def _decode_for_update(old: Mapping[str, Any] | None, new: Mapping[str, Any], subresource: str) -> Managers:
    stored = managed_fields_of(old)
    sent = None if subresource else managed_fields_of(new)
    if sent is not None and sent is not stored and sent != stored:
        if is_reset(sent):
            return {}
        try:
            managers = decode(sent)
        except ManagedFieldsError:
            managers = {}
        if managers:
            return managers
    try:
        return decode(stored, trusted=True)
    except ManagedFieldsError:
        return {}


def only_times_differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a write changed nothing but the times in managedFields (and so nothing worth storing)."""
    if {**old, "metadata": None} != {**new, "metadata": None}:
        return False
    before, after = managed_fields_of(old) or [], managed_fields_of(new) or []
    if len(before) != len(after) or without_managed_fields(old) != without_managed_fields(new):
        return False
    timeless = [[{key: value for key, value in entry.items() if key != "time"} for entry in side] for side in (before, after)]
    return timeless[0] == timeless[1]
