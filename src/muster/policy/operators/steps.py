"""What a decision about one kind of object consists of: what is said, what is to be written, and what is said once it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.api.meta import Condition
from muster.api.policy.v1beta1 import RelatedObject
from muster.machinery.objects import GVR, Object


@dataclass(frozen=True)
class Report:
    """A condition and the related objects that go with it, all of one kind. Without any, those of before remain."""

    condition: Condition
    related: tuple[RelatedObject, ...] = ()


@dataclass(frozen=True)
class Create:
    resource: GVR
    obj: Object


@dataclass(frozen=True)
class Update:
    """Replaces an object, in the version it has."""

    resource: GVR
    obj: Object


@dataclass(frozen=True)
class Patch:
    """A merge patch of an object, in the version it has."""

    resource: GVR
    obj: Object
    patch: Object
    subresource: str = ""


@dataclass(frozen=True)
class Delete:
    """Deletes this very object, not a namesake."""

    resource: GVR
    obj: Object


Write = Create | Update | Patch | Delete


@dataclass(frozen=True)
class Step:
    """What was found, and what is to be done about it."""

    report: Report | None
    """What is so now; None when what was said before still holds."""
    writes: tuple[Write, ...] = ()
    enforced: Callable[[Sequence[Object]], Report] | None = None
    """What is so once everything is written, from the server's answers."""
    announced: bool = True
    """Whether what is so before the writes is told at all."""
    correct: bool = False
    """Whether things are as required, once everything is written."""
    subject: Object | None = None
    """The object that later steps look at, if nothing is written."""
