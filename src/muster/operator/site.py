"""The clusters of an installation, and the objects that it has applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from muster.api import Condition
from muster.machinery.clock import Clock
from muster.machinery.objects import GVR, Object
from muster.operator.applier import ObjectRef, Wanted, object_refs
from muster.operator.prune import apply_owned, established
from muster.operator.target_cluster import TargetCluster
from muster.runtime.client import ClientConfig
from muster.runtime.install import await_definitions

P = TypeVar("P")


@dataclass
class Installed:
    """The objects that a reconcile has applied, on the operator's and the target cluster; `again` is when to reconcile next."""

    here: list[Wanted] = field(default_factory=list)
    on_target: list[Wanted] = field(default_factory=list)
    deployments: list[tuple[GVR, Object]] = field(default_factory=list)
    again: datetime | None = None
    remarks: list[Condition] = field(default_factory=list)
    """Conditions besides those of the Deployments."""

    @property
    def object_refs(self) -> list[ObjectRef]:
        return list(dict.fromkeys(object_refs([*self.on_target, *self.here])))

    def requeue_at(self, at: datetime | None) -> None:
        """Reconcile again at this time or earlier."""
        self.again = min(filter(None, (self.again, at)), default=None)


@dataclass(frozen=True)
class Site(Generic[P]):
    """The cluster that runs the Deployments, the target cluster (the hub, or the managed cluster), which may be another one, and
    the client configuration for that."""

    plan: P
    here: TargetCluster
    target: TargetCluster
    target_config: ClientConfig | None
    pull_namespace: str
    clock: Clock
    recorded: frozenset[ObjectRef] = frozenset()
    """Objects that the status lists as created before, by this operator or by upstream's."""

    async def apply_here(self, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
        made.here += documents
        return await apply_owned(self.here, documents, self.recorded)

    async def apply_on_target(self, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
        made.on_target += documents
        return await apply_owned(self.target, documents, self.recorded)

    async def apply_definitions(self, made: Installed, documents: Sequence[Wanted]) -> None:
        """Apply CRDs and wait until they are served."""
        results = await self.apply_on_target(made, documents)
        pending = [obj["metadata"]["name"] for obj in results if not established(obj)]
        if pending:
            await await_definitions(self.target.client, pending, self.clock)
