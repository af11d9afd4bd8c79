"""The admission chain of one cluster: first every mutating step in order, later every validating one.

A step is a small object that says whether an operation concerns it; most writes concern none but the namespace check, so the chain
costs a few microseconds when no webhook or policy matches. When a webhook has changed the object, the mutating steps run once more,
as kube-apiserver's reinvocation does: what the server adds is added to what the webhook brought, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object


@dataclass(slots=True)
class Reinvocation:
    """What the second round of mutating steps has to know of the first."""

    called: set[str]
    """Webhooks with reinvocationPolicy IfNeeded that have been called since the object was changed last."""
    again: set[str]
    """Those that are called once more."""
    left: bytes
    """The object as the webhooks of the first round left it."""


@dataclass(slots=True)
class Operation:
    """One write to be admitted: CREATE, UPDATE, DELETE or CONNECT."""

    name: str
    new: Object | None
    old: Object | None
    dry_run: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    reinvocation: Reinvocation | None = None
    """Set by a webhook's change of the object."""


class Mutator(Protocol):
    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        """The object to go on with (the same one where nothing is changed)."""


class Validator(Protocol):
    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        """Raise ApiError to refuse."""


class AdmissionChain:
    def __init__(self, mutators: Sequence[Mutator] = (), validators: Sequence[Validator] = ()) -> None:
        self.mutators = list(mutators)
        self.validators = list(validators)

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object:
        for mutator in self.mutators:
            operation.new = await mutator.mutate(ctx, resource, operation)
        if operation.reinvocation is not None:
            for mutator in self.mutators:
                operation.new = await mutator.mutate(ctx, resource, operation)
        return operation.new  # type: ignore[return-value]  # None only for DELETE, whose caller ignores it

    async def admit_request(self, ctx: Context, resource: ServedResource, obj: Object, dry_run: bool) -> Object:
        """Admit what is asked of a subresource that takes requests: a binding, an eviction, a token."""
        obj = await self.mutate(ctx, resource, Operation("CREATE", obj, None, dry_run))
        await self.validate(ctx, resource, Operation("CREATE", obj, None, dry_run))
        return obj

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        for validator in self.validators:
            await validator.validate(ctx, resource, operation)
