"""The admission chain of one cluster: all mutating plugins in order, then all validating ones.

Each plugin decides whether an operation concerns it. Most writes concern only NamespaceLifecycle, so the chain costs a few
microseconds when no webhook or policy matches. After a webhook has changed the object, the mutating plugins run a second time, as
in kube-apiserver (`reinvocationPolicy`), so that they also complete what the webhook has added.
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
    """State that the first round of mutating plugins passes to the second one."""

    called: set[str]
    """Webhooks with reinvocationPolicy IfNeeded that have been called since the last change of the object."""
    reinvoke: set[str]
    """Webhooks that are called again."""
    output: bytes
    """The encoded object after the webhooks of the first round."""


@dataclass(slots=True)
class Operation:
    """One operation to be admitted: CREATE, UPDATE, DELETE or CONNECT."""

    name: str
    new: Object | None
    old: Object | None
    dry_run: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    reinvocation: Reinvocation | None = None
    """Set when a webhook has changed the object."""


class Mutator(Protocol):
    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        """Return the object to continue with: the same one if nothing is changed."""


class Validator(Protocol):
    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        """Raise ApiError to reject the operation."""


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
        """Admit the request object of a subresource: a Binding, an Eviction or a TokenRequest."""
        obj = await self.mutate(ctx, resource, Operation("CREATE", obj, None, dry_run))
        await self.validate(ctx, resource, Operation("CREATE", obj, None, dry_run))
        return obj

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        for validator in self.validators:
            await validator.validate(ctx, resource, operation)
