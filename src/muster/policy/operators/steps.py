"""The decision about one kind of object: the report, the writes, and the report after the writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.api.meta import Condition
from muster.api.policy.v1beta1 import RelatedObject
from muster.machinery.objects import GVR, Object


@dataclass(frozen=True)
class Report:
    """A condition and the related objects of the same kind. Without any, the previous ones stay."""

    condition: Condition
    related: tuple[RelatedObject, ...] = ()


@dataclass(frozen=True)
class Create:
    resource: GVR
    obj: Object


@dataclass(frozen=True)
class Update:
    """Replaces an object at its resourceVersion."""

    resource: GVR
    obj: Object


@dataclass(frozen=True)
class Patch:
    """A merge patch of an object at its resourceVersion."""

    resource: GVR
    obj: Object
    patch: Object
    subresource: str = ""


@dataclass(frozen=True)
class Delete:
    """Deletes the object with this uid."""

    resource: GVR
    obj: Object


Write = Create | Update | Patch | Delete


@dataclass(frozen=True)
class Step:
    """The state, and the writes to correct it."""

    report: Report | None
    """The current state; None if the previous report still holds."""
    writes: tuple[Write, ...] = ()
    enforced: Callable[[Sequence[Object]], Report] | None = None
    """The state after all writes, from the server's answers."""
    announced: bool = True
    """Whether the state before the writes is reported at all."""
    correct: bool = False
    """Whether the state is as required after all writes."""
    subject: Object | None = None
    """The object for later steps, if nothing is written."""
