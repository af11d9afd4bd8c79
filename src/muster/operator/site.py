"""Where an operator installs something, and what an installation has made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from muster.api import Condition
from muster.machinery.clock import Clock
from muster.machinery.objects import GVR, Object
from muster.operator.applying import Place, Wanted, places
from muster.operator.ground import Ground
from muster.operator.keeping import apply_owned, established
from muster.runtime.client import ClientConfig
from muster.runtime.install import await_definitions

P = TypeVar("P")


@dataclass
class Installed:
    """What a pass has made, where things run and on the target cluster; whoever waits for it looks again at `again`."""

    here: list[Wanted] = field(default_factory=list)
    on_target: list[Wanted] = field(default_factory=list)
    deployments: list[tuple[GVR, Object]] = field(default_factory=list)
    again: datetime | None = None
    remarks: list[Condition] = field(default_factory=list)
    """What is to be said beside how the Deployments fare."""

    @property
    def places(self) -> list[Place]:
        return list(dict.fromkeys(places([*self.on_target, *self.here])))

    def look_again(self, at: datetime | None) -> None:
        """At the latest."""
        self.again = min(filter(None, (self.again, at)), default=None)


@dataclass(frozen=True)
class Site(Generic[P]):
    """The cluster that runs what is deployed, the target (the hub, or the managed cluster), which may be another one, and the way
    to that."""

    plan: P
    here: Ground
    target: Ground
    way: ClientConfig | None
    pull_namespace: str
    clock: Clock

    async def apply_here(self, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
        made.here += documents
        return await apply_owned(self.here, documents)

    async def apply_on_target(self, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
        made.on_target += documents
        return await apply_owned(self.target, documents)

    async def apply_definitions(self, made: Installed, documents: Sequence[Wanted]) -> None:
        """And wait until they are served."""
        results = await self.apply_on_target(made, documents)
        pending = [obj["metadata"]["name"] for obj in results if not established(obj)]
        if pending:
            await await_definitions(self.target.client, pending, self.clock)
