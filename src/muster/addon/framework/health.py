"""Availability of an addon, computed from its works, unless its lease or another program reports it.

The feedback of works is evaluated with their own manifests, so the availability is known also while the next configuration waits.
An unreachable cluster reports nothing: then the hub has set Unknown already, which is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from muster.addon.agent_addon import Feedback, Health, HealthMode
from muster.addon.framework.manifests import ManifestKey, manifest_key
from muster.addon.framework.status_draft import StatusDraft
from muster.addon.framework.works import WORKLOADS, manifests_of
from muster.api.addon.v1alpha1 import AVAILABLE, HealthCheck
from muster.api.cluster.v1 import AVAILABLE as CLUSTER_AVAILABLE
from muster.api.cluster.v1 import ManagedCluster
from muster.api.meta import condition_of
from muster.api.work.v1 import AVAILABLE as WORK_AVAILABLE
from muster.api.work.v1 import FieldValue, ManifestWork


def set_health(draft: StatusDraft, health: Health, addon: str, cluster: ManagedCluster, works: Sequence[ManifestWork]) -> None:
    by_lease = health.mode is HealthMode.LEASE
    draft.put(health_check=HealthCheck(mode="Lease" if by_lease else "Customized"))
    known = condition_of(cluster.status.conditions, CLUSTER_AVAILABLE)
    if by_lease or health.mode is HealthMode.NONE or (known is not None and known.status == "Unknown"):
        return
    draft.set(AVAILABLE, *judge(health, addon, works))


def judge(health: Health, addon: str, works: Sequence[ManifestWork]) -> tuple[bool | None, str, str]:
    """Status, reason and message of Available."""
    if not works:
        return None, "WorkNotFound", "Addon manifestWork is not found"
    for work in works:
        available = condition_of(work.status.conditions, WORK_AVAILABLE)
        if available is None:
            return None, "WorkNotApplied", "Addon manifestWork is not applied yet"
        if available.status != "True":
            return False, "WorkNotApplied", available.message
    probed = [manifest for work in works for manifest in manifests_of(work) if _is_probed(manifest)]
    if health.mode is HealthMode.WORK or (health.mode is HealthMode.WORKLOADS and not probed):
        return True, "WorkApplied", "Addon manifestWork is applied"
    feedback = feedback_of(works)
    if health.mode is HealthMode.WORKLOADS:
        found = {key: feedback[identifier] for key, identifier in map(_probe_key, probed) if identifier in feedback}
        problem = next((problem for key, values in found.items() if (problem := _workload_problem(key, values))), "")
        results = bool(found)
    else:
        results = bool(feedback)
        problem = health.probe(feedback) if results and health.probe is not None else ""
    if not results:
        return None, "NoProbeResult", "Probe results are not returned"
    if problem:
        return False, "ProbeUnavailable", f"Probe addon unavailable with err {problem}"
    return True, "ProbeAvailable", f"{addon} add-on is available."


def feedback_of(works: Sequence[ManifestWork]) -> Feedback:
    return {identifier: values for work in works for identifier, values in _reported(work) if values}


def _reported(work: ManifestWork) -> Iterator[tuple[tuple[str, str, str, str], dict[str, object]]]:
    for manifest in work.status.resource_status.manifests:
        meta = manifest.resource_meta
        values = {value.name: _value(value.field_value) for value in manifest.status_feedback.values}
        yield (meta.group, meta.resource, meta.namespace, meta.name), values


def _value(field: FieldValue) -> object:
    if field.type == "JsonRaw":
        try:
            return orjson.loads(field.json_raw or "null")
        except orjson.JSONDecodeError:
            return None
    return {"Integer": field.integer, "String": field.string, "Boolean": field.boolean}.get(field.type)


def _is_probed(manifest: Mapping[str, Any]) -> bool:
    key, spec = manifest_key(manifest), manifest.get("spec")
    return (key.group, key.kind) in WORKLOADS and not (isinstance(spec, Mapping) and spec.get("replicas") == 0)


def _probe_key(manifest: Mapping[str, Any]) -> tuple[ManifestKey, tuple[str, str, str, str]]:
    key = manifest_key(manifest)
    return key, (key.group, WORKLOADS[key.group, key.kind], key.namespace, key.name)


def _workload_problem(key: ManifestKey, values: Mapping[str, object]) -> str:
    if key.kind == "Deployment":
        ready, wanted = _count(values, "ReadyReplicas"), _count(values, "Replicas")
        well = ready >= 1 or ("Replicas" in values and wanted == 0)
    else:
        ready, wanted = _count(values, "NumberReady"), _count(values, "DesiredNumberScheduled")
        well = ready == wanted
    return "" if well else f"{key} has {ready} ready of {wanted}"


def _count(values: Mapping[str, object], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else 0
