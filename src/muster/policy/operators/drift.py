"""How an OperatorGroup or a Subscription differs from what a policy wants of it.

A policy says what must be there, so fields that it does not mention are left alone; but parts that only make sense as a whole (an
operator's configuration, the namespaces of a group) are taken exactly as the policy has them. What the cache shows to differ is
read anew and updated in a dry run, since the server may see no difference, or may refuse one. No request is made while nothing
differs.
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
    """Whether the server refuses that."""
    merged: Object
    """The object as it should be."""


def laid_over(desired: Object, existing: Object, exact: Sequence[str]) -> tuple[Object, bool]:
    """The object as the policy wants it, and whether that differs. `exact` names fields of the spec. Raises ComparisonError."""
    replaced = {field: value for field in exact if (value := value_at(desired, "spec", field))}
    differs = any(not _is_same(value, value_at(existing, "spec", field)) for field, value in replaced.items())
    compared = compare(desired, existing, compliance="musthave")
    merged = _with_last_applied(compared.merged, existing)
    if replaced:
        merged = {**merged, "spec": {**(merged.get("spec") or {}), **replaced}}
    return merged, differs or compared.mismatch


def _with_last_applied(merged: Object, existing: Object) -> Object:
    """Comparing passes over what kubectl has noted down; writing must not lose it."""
    noted = value_at(existing, "metadata", "annotations", LAST_APPLIED)
    if noted is None:
        return merged
    metadata = merged["metadata"]
    return {**merged, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), LAST_APPLIED: noted}}}


def _is_same(wanted: Any, existing: Any) -> bool:
    """In any order of lists, and nothing besides."""
    template, found = {"spec": {"it": wanted}}, {"spec": {} if existing is None else {"it": existing}}
    return not compare(template, found, compliance="mustonlyhave").mismatch


async def find_drift(client: KubeClient, resource: GVR, desired: Object, cached: Object, exact: Sequence[str]) -> Drift:
    """Raises ComparisonError, and KubeError: Conflict when the object has gone meanwhile."""
    _, differs = laid_over(desired, cached, exact)
    if not differs:
        return Drift(False, False, cached)
    try:
        live = await client.get(resource, name_of(cached), namespace_of(cached))
    except NotFound as error:
        raise Conflict(409, "Conflict", f"{resource} {name_of(cached)} has gone meanwhile") from error
    merged, differs = laid_over(desired, live, exact)
    if not differs:
        return Drift(False, False, live)
    try:
        answer = await client.update(resource, merged, dry_run=True)
    except Forbidden:
        return Drift(True, True, merged)
    if identical(without_noise(answer), without_noise(live)):
        return Drift(False, False, live)
    return Drift(True, False, merged)
