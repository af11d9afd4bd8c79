"""Jobs and CronJobs: the generated selector and labels of a Job, and its immutable fields."""

from __future__ import annotations

from typing import Final

from muster.apiserver.builtin.kinds.checks import (
    IMMUTABLE,
    Errors,
    immutable,
    label_selector,
    none_negative,
    not_negative,
    one_of,
    selects,
    spec_of,
)
from muster.apiserver.builtin.kinds.pods import pod_template
from muster.apiserver.registry.strategy import HookContext
from muster.kube.cron import ScheduleError, parse_schedule
from muster.kube.fielderrors import invalid, not_supported, required
from muster.machinery.objects import Object

_NUMBERS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished", "backoffLimitPerIndex",
    "maxFailedIndexes",
)  # fmt: skip
_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_FROZEN: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def prepare_job(ctx: HookContext, obj: Object, old: Object | None) -> None:
    """Generate selector and labels from the uid of the Job, unless `manualSelector` is set."""
    if old is not None:
        return
    spec = obj.setdefault("spec", {})
    if spec.get("manualSelector"):
        return
    meta = obj["metadata"]
    template_meta = spec.setdefault("template", {}).setdefault("metadata", {})
    shared = template_meta.get("labels") is not None and template_meta["labels"] == meta.get("labels")
    labels = template_meta.get("labels") or {}
    labels = {**dict.fromkeys(_NAME_LABELS, meta.get("name", "")), **dict.fromkeys(_UID_LABELS, meta["uid"]), **labels}
    template_meta["labels"] = labels
    if shared or not meta.get("labels"):
        meta["labels"] = dict(labels)
    selector = spec.get("selector")
    if selector is None:
        selector = spec["selector"] = {}
    selector.setdefault("matchLabels", {}).setdefault(_UID_LABELS[1], meta["uid"])


def _job_spec(spec: Object, path: str) -> Errors:
    errors = none_negative(spec, _NUMBERS, path)
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(f"{path}.completionMode", mode, ["NonIndexed", "Indexed"]))
    if mode == "Indexed" and spec.get("completions") is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(f"{path}.{field}", spec[field], "requires indexed completion mode"))
    errors += pod_template(spec.get("template"), f"{path}.template")
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "")
    if policy in ("", "Always"):
        errors.append(required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(f"{path}.template.spec.restartPolicy", policy, ["OnFailure", "Never"]))
    return errors


def validate_job(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    selector = spec.get("selector")
    errors: Errors = []
    if not spec.get("manualSelector") and selector is not None:
        uid = obj["metadata"].get("uid")
        if selector not in ({"matchLabels": {label: uid}} for label in _UID_LABELS):
            errors.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    errors += _job_spec(spec, "spec")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += label_selector(selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if selector is None or selects(selector, labels) is False:
        errors.append(invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"))
    return errors if old is None else errors + _job_update(spec, spec_of(old))


def _job_update(spec: Object, before: Object) -> Errors:
    errors: Errors = []
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        errors += immutable(spec.get("completions"), before.get("completions"), "spec.completions")
    errors += immutable(spec.get("selector"), before.get("selector"), "spec.selector")
    template, current = spec.get("template") or {}, before.get("template") or {}
    if not _same_but_for_scheduling(template, current, free=bool(before.get("suspend"))):
        errors.append(invalid("spec.template", template, IMMUTABLE))
    for field in _FROZEN:
        errors += immutable(spec.get(field), before.get(field), f"spec.{field}")
    return errors


_SCHEDULING: Final = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def _same_but_for_scheduling(template: Object, current: Object, free: bool) -> bool:
    """Whether only scheduling directives of the template differ, which may change while a Job is suspended."""
    if not free:
        return template == current
    kept = {key: value for key, value in (current.get("spec") or {}).items() if key not in _SCHEDULING}
    return {key: value for key, value in (template.get("spec") or {}).items() if key not in _SCHEDULING} == kept


def schedule_problem(schedule: str) -> str:
    """The error of a cron schedule, in the words of `robfig/cron`; empty if it is valid."""
    try:
        parse_schedule(schedule)
    except ScheduleError as problem:
        return str(problem)
    return ""


def validate_cron_job(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    schedule = spec.get("schedule", "")
    errors: Errors = []
    if not schedule:
        errors.append(required("spec.schedule"))
    else:
        problem = schedule_problem(schedule)
        if problem:
            errors.append(invalid("spec.schedule", schedule, problem))
        if "TZ" in schedule:
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid("spec.schedule", schedule, text))
    errors += not_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    errors += one_of(spec.get("concurrencyPolicy"), ["Allow", "Forbid", "Replace"], "spec.concurrencyPolicy")
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += _job_spec(template, "spec.jobTemplate.spec")
    if template.get("manualSelector"):
        errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ["nil", "false"]))
    errors += none_negative(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
    name = obj["metadata"].get("name", "")
    if old is None and len(name) > 52:
        errors.append(invalid("metadata.name", name, "must be no more than 52 characters"))
    return errors
