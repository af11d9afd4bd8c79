"""How works are shown: a row for each, a branch with the state of its resources, and for works requested by name all details of
each resource, above all failures and their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from muster.administration.content.work_status import NOT_YET, is_old, problem_of, resources_of, status_text
from muster.api.meta import Condition, condition_of
from muster.api.work.v1 import FieldValue, ManifestCondition, ManifestWork
from muster.cli.output import Branch, Item
from muster.machinery.objects import Object
from muster.work.names import APPLIED, AVAILABLE, FEEDBACK_SYNCED

COLUMNS: Final = ("Name", "Cluster", "Number Of Manifests", "Applied", "Available")
MORE: Final = ("Executor", "Problem")
_STATES: Final[Mapping[str, str]] = {"True": "applied", "": "unknown"}


def work_item(work: ManifestWork, document: Object, *, named: bool) -> Item:
    """`named`: the work was requested by name, so its branch has all details."""
    name, cluster = work.metadata.name, work.metadata.namespace
    number = len(work.spec.workload.manifests)
    conditions = {kind: condition_of(work.status.conditions, kind) for kind in (APPLIED, AVAILABLE)}
    statuses = {kind: condition.status if condition else "" for kind, condition in conditions.items()}
    fields: dict[str, object] = {"Cluster": cluster, "Number of Manifests": number, **statuses}
    if named:
        fields |= {kind: _verdict(condition, work) for kind, condition in conditions.items()}
        fields |= _further(work)
    fields["Resources"] = _all_of(work) if named else work_details(work)
    cells = (name, cluster, number, *statuses.values())
    return Item(f"{cluster}/{name}", cells, fields, document, more=(_executor(work), problem_of(work)))


def work_details(work: ManifestWork) -> dict[str, dict[str, str]]:
    """The state of each resource, by kind and name."""
    found: dict[str, dict[str, str]] = {}
    for place, name, manifest in resources_of(work):
        found.setdefault(place, {})[name] = _state(manifest)
    return found


def _state(manifest: ManifestCondition) -> str:
    applied = condition_of(manifest.conditions, APPLIED)
    return _STATES.get(applied.status if applied else "", "not-applied")


def _all_of(work: ManifestWork) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for place, name, manifest in resources_of(work):
        below = dict(_feedback(manifest))
        found.setdefault(place, {})[name] = Branch(_state(manifest), below) if below else _state(manifest)
    return found


def _feedback(manifest: ManifestCondition) -> Iterator[tuple[str, object]]:
    """Failed conditions, results of condition rules, and feedback values."""
    usual = (APPLIED, AVAILABLE, FEEDBACK_SYNCED)
    for condition in sorted(manifest.conditions, key=lambda one: usual.index(one.type) if one.type in usual else len(usual)):
        if condition.type not in usual or condition.status != "True":
            yield condition.type, status_text(condition)
    values = {one.name: _value(one.field_value) for one in manifest.status_feedback.values}
    if values:
        yield "Feedback", values


def _value(value: FieldValue) -> object:
    return next((one for one in (value.integer, value.string, value.boolean, value.json_raw) if one is not None), "")


def _further(work: ManifestWork) -> dict[str, object]:
    """Further conditions of the work, and its executor."""
    usual = (APPLIED, AVAILABLE)
    found: dict[str, object] = {
        one.type.replace(".", "·"): status_text(one) for one in work.status.conditions if one.type not in usual
    }
    executor = _executor(work)
    return {"Executor": executor, **found} if executor else found


def _executor(work: ManifestWork) -> str:
    subject = work.spec.executor.subject if work.spec.executor else None
    account = subject.service_account if subject else None
    return f"{account.namespace}/{account.name}" if account else ""


def _verdict(condition: Condition | None, work: ManifestWork) -> str:
    if condition is None:
        return f"Unknown: {NOT_YET}"
    told = condition.status if condition.status == "True" else status_text(condition)
    return f"{told} (of an earlier generation: {NOT_YET})" if is_old(condition, work) else told
