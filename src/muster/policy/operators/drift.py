"""Drift of an OperatorGroup or a Subscription from the policy's desired one.

Fields that the policy does not set are kept; but parts that only make sense as a whole (an operator's configuration, the
namespaces of a group) must equal the policy's. If the cached object differs, it is read again and updated in a dry run, since
the server may see no difference, or may refuse the update. No request is made while nothing differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.machinery.objects import GVR, Object
from muster.policy.comparison import compare, identical, without_noise
from muster.policy.comparison.objects import LAST_APPLIED
from muster.policy.operators.kinds import name_of, namespace_of, value_at
from muster.runtime.client import Conflict, Forbidden, KubeClient, NotFound


@dataclass(frozen=True)
class Drift:
    needed: bool
    """Whether the object has to change."""
    forbidden: bool
    """Whether the server refuses the change."""
    merged: Object
    """The desired object."""


def merged_object(desired: Object, existing: Object, exact: Sequence[str]) -> tuple[Object, bool]:
    """The object with the policy's fields, and whether it differs. `exact` are fields of the spec. Raises ComparisonError."""
    replaced = {field: value for field in exact if (value := value_at(desired, "spec", field))}
    differs = any(not _is_same(value, value_at(existing, "spec", field)) for field, value in replaced.items())
    compared = compare(desired, existing, compliance="musthave")
    merged = _with_last_applied(compared.merged, existing)
    if replaced:
        merged = {**merged, "spec": {**(merged.get("spec") or {}), **replaced}}
    return merged, differs or compared.mismatch


def _with_last_applied(merged: Object, existing: Object) -> Object:
    """Comparisons ignore kubectl's last-applied annotation; writes must not remove it."""
    noted = value_at(existing, "metadata", "annotations", LAST_APPLIED)
    if noted is None:
        return merged
    metadata = merged["metadata"]
    return {**merged, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), LAST_APPLIED: noted}}}


def _is_same(wanted: Any, existing: Any) -> bool:
    """Equal, with lists in any order."""
    template, found = {"spec": {"it": wanted}}, {"spec": {} if existing is None else {"it": existing}}
    return not compare(template, found, compliance="mustonlyhave").mismatch


async def find_drift(client: KubeClient, resource: GVR, desired: Object, cached: Object, exact: Sequence[str]) -> Drift:
    """Raises ComparisonError, and KubeError: Conflict if the object was deleted meanwhile."""
    _, differs = merged_object(desired, cached, exact)
    if not differs:
        return Drift(False, False, cached)
    try:
        live = await client.get(resource, name_of(cached), namespace_of(cached))
    except NotFound as error:
        raise Conflict(409, "Conflict", f"{resource} {name_of(cached)} was deleted meanwhile") from error
    merged, differs = merged_object(desired, live, exact)
    if not differs:
        return Drift(False, False, live)
    try:
        answer = await client.update(resource, merged, dry_run=True)
    except Forbidden:
        return Drift(True, True, merged)
    if identical(without_noise(answer), without_noise(live)):
        return Drift(False, False, live)
    return Drift(True, False, merged)
