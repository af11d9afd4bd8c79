"""Types of Kubernetes itself that our kinds contain: conditions, selectors, tolerations, resource requirements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from muster.api.markers import (
    ATOMIC_LIST,
    REQUIRED,
    Int64,
    QualifiedName,
    Quantity,
    Time,
    keyed_by,
    length,
    one_of,
    pattern,
    schema,
)
from muster.api.resource import Record


class Condition(Record):
    """One observation about an object, with the time its status last changed.

    Agents that report without an API server in between may leave parts out, as Go's zero values.
    """

    type: QualifiedName
    status: Annotated[str, one_of("True", "False", "Unknown")]
    reason: Annotated[str, pattern(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", 1024, 1), REQUIRED] = ""
    message: Annotated[str, length(maximum=32768), REQUIRED] = ""
    last_transition_time: Annotated[Time, REQUIRED] = ""
    observed_generation: Annotated[Int64, schema(minimum=0)] = 0


Conditions = Annotated[tuple[Condition, ...], keyed_by("type")]


def condition_of(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    condition = condition_of(conditions, kind)
    return condition is not None and condition.status == "True"


def with_condition(conditions: tuple[Condition, ...], new: Condition, now: str) -> tuple[Condition, ...]:
    """The conditions with `new` in its place; its time moves only when its status does. The same tuple when nothing changes."""
    old = condition_of(conditions, new.type)
    since = now if old is None or old.status != new.status else old.last_transition_time
    dated = msgspec.structs.replace(new, last_transition_time=since)
    if old is None:
        return (*conditions, dated)
    if old == dated:
        return conditions
    return tuple(dated if condition is old else condition for condition in conditions)


class Requirement(Record):
    """A key, how it is compared, and with what."""

    key: str
    operator: str
    values: Annotated[tuple[str, ...], ATOMIC_LIST] = ()


class LabelSelector(Record):
    """Selects objects whose labels match all requirements; an empty selector selects all."""

    keywords: ClassVar[Mapping[str, Any]] = {"x-kubernetes-map-type": "atomic"}

    match_labels: Mapping[str, str] = {}
    match_expressions: Annotated[tuple[Requirement, ...], ATOMIC_LIST] = ()


class Toleration(Record):
    """Lets pods run on nodes that have a matching taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class NodePlacement(Record):
    """On which nodes pods may run."""

    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class ResourceClaim(Record):
    """A claim of the pod that a container uses."""

    name: str
    request: str = ""


class ResourceRequirements(Record):
    """The resources that a container requests, and its limits."""

    claims: Annotated[tuple[ResourceClaim, ...], keyed_by("name")] = ()
    limits: Mapping[str, Quantity] = {}
    requests: Mapping[str, Quantity] = {}
