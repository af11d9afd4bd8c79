"""How works are shown: a row for each, a branch with what became of its resources, and for those asked for by name all that is
reported of each resource, above all what failed and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from muster.api.meta import Condition, condition_of
from muster.api.work.v1 import FieldValue, ManifestCondition, ManifestWork
from muster.cli.output import Branch, Item
from muster.runtime.resource import Object
from muster.work.names import APPLIED, AVAILABLE, DELETING, FEEDBACK_SYNCED

COLUMNS: Final = ("Name", "Cluster", "Number Of Manifests", "Applied", "Available")
MORE: Final = ("Executor", "Problem")
_STATES: Final[Mapping[str, str]] = {"True": "applied", "": "unknown"}
_NOT_YET: Final = "the cluster's agent has not dealt with it yet"
_PREFIX: Final = "Failed to apply manifest: "


def work_item(work: ManifestWork, document: Object, *, named: bool) -> Item:
    """`named`: somebody asks for this work, so its branch has everything."""
    name, cluster = work.metadata.name, work.metadata.namespace
    number = len(work.spec.workload.manifests)
    said = {kind: condition_of(work.status.conditions, kind) for kind in (APPLIED, AVAILABLE)}
    statuses = {kind: condition.status if condition else "" for kind, condition in said.items()}
    fields: dict[str, object] = {"Cluster": cluster, "Number of Manifests": number, **statuses}
    if named:
        fields |= {kind: _verdict(condition, work) for kind, condition in said.items()}
        fields |= _further(work)
    fields["Resources"] = _all_of(work) if named else work_details(work)
    cells = (name, cluster, number, *statuses.values())
    return Item(f"{cluster}/{name}", cells, fields, document, more=(_executor(work), problem_of(work)))


def work_details(work: ManifestWork) -> dict[str, dict[str, str]]:
    """Of each resource whether it was applied, by what it is of."""
    found: dict[str, dict[str, str]] = {}
    for place, name, manifest in _resources(work):
        found.setdefault(place, {})[name] = _state(manifest)
    return found


def problem_of(work: ManifestWork) -> str:
    """The first thing that is wrong with a work, in one line; empty when it is as it should be."""
    going = condition_of(work.status.conditions, DELETING)
    if going is not None and going.status == "True":
        return _line(going.message)
    if _is_old(condition_of(work.status.conditions, APPLIED), work):
        return _NOT_YET
    for kind in (APPLIED, AVAILABLE):
        wrong = [
            f"{place} {name}: {_line(condition.message.removeprefix(_PREFIX))}"
            for place, name, manifest in _resources(work)
            if (condition := condition_of(manifest.conditions, kind)) is not None and condition.status != "True"
        ]
        if wrong:
            return wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
    return ""


def _resources(work: ManifestWork) -> Iterator[tuple[str, str, ManifestCondition]]:
    """Kind of resource, name, and what is reported of it."""
    for manifest in work.status.resource_status.manifests:
        meta = manifest.resource_meta
        place = (meta.resource or meta.kind or "unknown") + (f".{meta.group}" if meta.group else "")
        name = meta.name or f"manifest {meta.ordinal}"
        yield place, f"{meta.namespace}/{name}" if meta.namespace else name, manifest


def _state(manifest: ManifestCondition) -> str:
    applied = condition_of(manifest.conditions, APPLIED)
    return _STATES.get(applied.status if applied else "", "not-applied")


def _all_of(work: ManifestWork) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for place, name, manifest in _resources(work):
        below = dict(_told(manifest))
        found.setdefault(place, {})[name] = Branch(_state(manifest), below) if below else _state(manifest)
    return found


def _told(manifest: ManifestCondition) -> Iterator[tuple[str, object]]:
    """What is not as it should be, what rules say, and the values that were asked for."""
    usual = (APPLIED, AVAILABLE, FEEDBACK_SYNCED)
    for condition in sorted(manifest.conditions, key=lambda one: usual.index(one.type) if one.type in usual else len(usual)):
        if condition.type not in usual or condition.status != "True":
            yield condition.type, _words(condition)
    values = {one.name: _value(one.field_value) for one in manifest.status_feedback.values}
    if values:
        yield "Feedback", values


def _value(value: FieldValue) -> object:
    return next((one for one in (value.integer, value.string, value.boolean, value.json_raw) if one is not None), "")


def _further(work: ManifestWork) -> dict[str, object]:
    """Conditions beside the two that every work has, and as whom it is applied."""
    usual = (APPLIED, AVAILABLE)
    found: dict[str, object] = {one.type.replace(".", "·"): _words(one) for one in work.status.conditions if one.type not in usual}
    executor = _executor(work)
    return {"Executor": executor, **found} if executor else found


def _executor(work: ManifestWork) -> str:
    subject = work.spec.executor.subject if work.spec.executor else None
    account = subject.service_account if subject else None
    return f"{account.namespace}/{account.name}" if account else ""


def _verdict(condition: Condition | None, work: ManifestWork) -> str:
    if condition is None:
        return f"Unknown: {_NOT_YET}"
    told = condition.status if condition.status == "True" else _words(condition)
    return f"{told} (of an earlier generation: {_NOT_YET})" if _is_old(condition, work) else told


def _is_old(condition: Condition | None, work: ManifestWork) -> bool:
    return condition is None or condition.observed_generation < work.metadata.generation


def _words(condition: Condition) -> str:
    return f"{condition.status}: {condition.reason}: {_line(condition.message)}".rstrip(": ")


def _line(text: str) -> str:
    return " ".join(text.split())
