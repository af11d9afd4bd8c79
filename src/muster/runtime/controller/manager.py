"""A manager runs the controllers of a process and everything beside them. Follows controller-runtime's `manager`.

A `Runnable` is anything with `async def run()`; `Manager.add` adds it by name. Those that need leader election (the default) start
when this replica is elected; the others (e.g. webhooks) run in every replica. Caches run with the elected ones: a standby replica
watches nothing. All run in one task group: all or none. A runnable handles its own failures, so one that ends is a bug: the others
are cancelled, and `RunnableEnded` names it.

A package has a table of its controllers by name. `make_controllers` makes those that are not disabled: a disabled controller is not
made, so it watches nothing and costs nothing.
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
"""Returns None if all is well, or the problem."""


class Runnable(Protocol):
    def run(self) -> Awaitable[None]:
        """Runs until cancelled."""


@dataclass(frozen=True)
class RunnableFunc:
    """A function as a Runnable."""

    run: Callable[[], Awaitable[None]]


class Manager:
    def __init__(self) -> None:
        self._elected_only: dict[str, Callable[[], Awaitable[None]]] = {}
        self._everywhere: dict[str, Callable[[], Awaitable[None]]] = {}
        self._informers: list[Informers] = []
        self.live_checks: dict[str, Check] = {}
        self.ready_checks: dict[str, Check] = {}
        self.elected = False
        """Whether the runnables that need leader election have started."""

    def add(self, name: str, runnable: Runnable, *, needs_leader_election: bool = True) -> None:
        if name in self._elected_only or name in self._everywhere:
            raise ValueError(f"there is a runnable of this name already: {name}")
        (self._elected_only if needs_leader_election else self._everywhere)[name] = runnable.run

    def add_context(self, context: ControllerContext) -> None:
        """Add the caches of controllers, a check of these, and the event recorder."""
        self._informers.append(context.informers)
        self.add("the caches", context.informers)
        self.add("the event recorder", context.events)
        self.add_ready_check("caches", lambda: None if self.ready else "the caches are not complete", once_elected=True)

    def add_controllers(self, controllers: Mapping[str, Runnable]) -> None:
        for name, controller in controllers.items():
            self.add(f"controller {name}", controller)

    def add_live_check(self, name: str, check: Check) -> None:
        """Liveness: a process that fails this check is to be restarted."""
        self.live_checks[name] = check

    def add_ready_check(self, name: str, check: Check, *, once_elected: bool = False) -> None:
        """Readiness: a process that fails this check cannot work now. With `once_elected` it is skipped in standby replicas."""
        self.ready_checks[name] = (lambda: check() if self.elected else None) if once_elected else check

    @property
    def has_elected_only(self) -> bool:
        """Whether any runnable needs leader election."""
        return bool(self._elected_only)

    @property
    def ready(self) -> bool:
        """Whether every cache has synced once."""
        return all(informers.has_synced for informers in self._informers)

    async def synced(self) -> None:
        for informers in self._informers:
            await informers.synced()

    async def run(self, election: LeaderElection | None = None) -> NoReturn:
        """Run until cancelled. Without an election this is the only replica. Raises RunnableEnded, and LeadershipLost."""
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
    """The controllers of a table without the disabled ones. Raises ValueError for a name that is not in the table."""
    if unknown := sorted(set(disabled) - set(table)):
        raise ValueError(f"no such controller: {', '.join(unknown)}; there are {', '.join(table)}")
    return {name: make(context) for name, make in table.items() if name not in disabled}
