"""Works, manifests and outcomes to report on, and the check that a hub would take a status."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from muster.api.crds import ALL, definitions
from muster.api.meta import Condition, condition_of
from muster.api.resource import ObjectMeta, known_fields
from muster.api.work.v1 import (
    ConditionRule,
    FeedbackRule,
    FieldValue,
    JsonPath,
    ManifestCondition,
    ManifestResourceMeta,
    ManifestWork,
    ManifestWorkStatus,
    UpdateStrategy,
)
from muster.apiserver.crd.compiled import CustomStrategy, compile_definition
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.work.agent.interfaces import InvalidManifest, Manifest
from muster.work.agent.reporting import ManifestFailure, ManifestResult

DEPLOYMENTS = GVR("apps/v1", "deployments", "Deployment")
JOBS = GVR("batch/v1", "jobs", "Job")
PODS = GVR("v1", "pods", "Pod")
FIRST, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def work(status: ManifestWorkStatus | None = None, generation: int = 1) -> ManifestWork:
    return ManifestWork(metadata=ObjectMeta(name="w", namespace="c1", generation=generation), status=status or ManifestWorkStatus())


def manifest(
    name: str = "a",
    *,
    ordinal: int = 0,
    resource: GVR = CONFIG_MAPS,
    feedback: Sequence[FeedbackRule] = (),
    conditions: Sequence[ConditionRule] = (),
) -> Manifest:
    return Manifest(
        ordinal=ordinal,
        rank=0,
        ref=ObjectRef(resource, "app", name),
        document={},
        digest=b"",
        strategy=UpdateStrategy(),
        owned=True,
        feedback=tuple(feedback),
        conditions=tuple(conditions),
    )


def applied(
    subject: Manifest | None = None, live: Object | bytes | None = None, failure: ManifestFailure | None = None
) -> ManifestResult:
    return ManifestResult(subject or manifest(), failure=failure, live=b"{}" if live is None else live)


def invalid_manifest(ordinal: int = 0, problem: str = "no such kind") -> InvalidManifest:
    return InvalidManifest(
        ManifestResourceMeta(ordinal=ordinal, group="x", version="v1", kind="Odd", name="o"), problem, unserved=True
    )


def well_known() -> FeedbackRule:
    return FeedbackRule(type="WellKnownStatus")


def paths(**found: str) -> FeedbackRule:
    return FeedbackRule(type="JSONPaths", json_paths=tuple(JsonPath(name=name, path=path) for name, path in found.items()))


def cel(condition: str, *expressions: str, **more: str) -> ConditionRule:
    return ConditionRule(type="CEL", condition=condition, cel_expressions=expressions, **more)


def said(holder: ManifestWorkStatus | ManifestCondition, kind: str) -> Condition:
    found = condition_of(holder.conditions, kind)
    assert found is not None, f"there is no condition {kind}"
    return found


def values(entry: ManifestCondition) -> dict[str, Any]:
    return {one.name: _value(one.field_value) for one in entry.status_feedback.values}


def _value(value: FieldValue) -> Any:
    [only] = [one for one in (value.integer, value.string, value.boolean, value.json_raw) if one is not None]
    return only


def complaints(status: ManifestWorkStatus) -> list[str]:
    """What a hub would refuse a work with this status for."""
    holder = msgspec.structs.replace(work(), status=status)
    document = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", **known_fields(holder)}
    return [str(error) for error in _definition().check(document, None)]


@cache
def _definition() -> CustomStrategy:
    [kind] = [one for one in ALL if one.versions[0] is ManifestWork]
    [document] = definitions([kind])
    [row] = compile_definition(document)
    assert isinstance(row.strategy, CustomStrategy)
    return row.strategy
