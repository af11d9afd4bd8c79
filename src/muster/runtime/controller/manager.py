"""A manager runs the controllers of a process, and what goes with them, side by side. Follows controller-runtime's `manager`.

Whatever has `async def run()` is a `Runnable` and is added by name: `Manager.add`. Those that need leader election, which are all
that do not say otherwise, begin when this replica is elected; the others (webhooks, say) run in every replica. Caches belong to
the elected ones: a replica that stands by watches nothing. Everything runs in one task group: either all of it, or none. A
runnable looks after its own failures, so one that ends is a defect: the rest is cancelled, and `RunnableEnded` names it.

A room has its controllers in a table by name. `make_controllers` makes those that are not switched off, and that is the only way
to switch one off: a controller that is off is not made, so it watches nothing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

from muster.machinery.tasks import RunnableEnded, run_all
from muster.runtime.cache.informer import Informers
from muster.runtime.controller.context import ControllerContext
from muster.runtime.controller.leader_election import LeaderElection, LeadershipLost

C = TypeVar("C")
Check = Callable[[], str | None]
"""Gives None when all is well, or what is wrong."""


class Runnable(Protocol):
    def run(self) -> Awaitable[None]:
        """Until cancelled."""


@dataclass(frozen=True)
class RunnableFunc:
    """A function that is a Runnable."""

    run: Callable[[], Awaitable[None]]


class Manager:
    def __init__(self) -> None:
        self._elected_only: dict[str, Callable[[], Awaitable[None]]] = {}
        self._everywhere: dict[str, Callable[[], Awaitable[None]]] = {}
        self._informers: list[Informers] = []
        self.live_checks: dict[str, Check] = {}
        self.ready_checks: dict[str, Check] = {}
        self.elected = False
        """Whether those that need leader election have begun."""

    def add(self, name: str, runnable: Runnable, *, needs_leader_election: bool = True) -> None:
        if name in self._elected_only or name in self._everywhere:
            raise ValueError(f"there is a runnable of this name already: {name}")
        (self._elected_only if needs_leader_election else self._everywhere)[name] = runnable.run

    def add_context(self, context: ControllerContext) -> None:
        """The caches of controllers, a check of these, and the recorder of events."""
        self._informers.append(context.informers)
        self.add("the caches", context.informers)
        self.add("the event recorder", context.events)
        self.add_ready_check("caches", lambda: None if self.ready else "the caches are not complete", once_elected=True)

    def add_controllers(self, controllers: Mapping[str, Runnable]) -> None:
        for name, controller in controllers.items():
            self.add(f"controller {name}", controller)

    def add_live_check(self, name: str, check: Check) -> None:
        """A process that fails this is to be restarted."""
        self.live_checks[name] = check

    def add_ready_check(self, name: str, check: Check, *, once_elected: bool = False) -> None:
        """A process that fails this is well but cannot work now. A replica that stands by is not asked what is for the elected."""
        self.ready_checks[name] = (lambda: check() if self.elected else None) if once_elected else check

    @property
    def has_elected_only(self) -> bool:
        """Whether there is anything that needs leader election."""
        return bool(self._elected_only)

    @property
    def ready(self) -> bool:
        """Whether every cache has held its whole state once."""
        return all(informers.has_synced for informers in self._informers)

    async def synced(self) -> None:
        for informers in self._informers:
            await informers.synced()

    async def run(self, election: LeaderElection | None = None) -> NoReturn:
        """Until cancelled. Without an election this is the only replica. Raises RunnableEnded, and LeadershipLost."""
        if election is None or not self._elected_only:
            self.elected = True
            await run_all({**self._everywhere, **self._elected_only})
        try:
            await run_all({**self._everywhere, "leader election": lambda: election.run(self._lead)})
        except RunnableEnded as end:
            raise (end.error if isinstance(end.error, LeadershipLost) else end) from None

    async def _lead(self) -> None:
        self.elected = True
        await run_all(self._elected_only)


def make_controllers(
    table: Mapping[str, Callable[[C], Runnable]], context: C, disabled: Collection[str] = ()
) -> dict[str, Runnable]:
    """The controllers of a table but for those that are switched off. Raises ValueError for a name that is not in the table."""
    if unknown := sorted(set(disabled) - set(table)):
        raise ValueError(f"no such controller: {', '.join(unknown)}; there are {', '.join(table)}")
    return {name: make(context) for name, make in table.items() if name not in disabled}
