"""Cached reads of a cluster: one watch per selection, shared by all readers, for as long as one needs it.

A follower is a name (of a policy). It follows every selection that it reads, until it settles on fewer or is removed; handlers are
called with its name when a selection changed, was refused, or is available again. They are called a moment later, so that several
changes are reported at once, and only for followers that do not learn of the change otherwise: a waiting read gets the result
itself.

A read is served from the cache if the selection is known. Otherwise it waits only for its own watch: refusals, missing answers and
unreachable servers are raised for this reader, and no lock is held meanwhile that others need.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from muster.machinery.clock import SYSTEM, Clock, Random, Timer, within
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.runtime.cache.selection_watch import Selection, SelectionWatch, is_refusal
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import BadRequest, KubeError, Unreachable

__all__ = ["FollowedSelections", "Selection"]

log = get_logger("muster.runtime.cache.selections")

READ_TIMEOUT: Final = 10.0
"""Seconds for which a read waits for a server that does not answer."""
NOTIFY_DELAY: Final = 0.05
"""Seconds between a change and its notification."""
UNUSED_WATCH_TIMEOUT: Final = 2.0
"""Seconds after which a watch that is not needed ends."""


@dataclass(slots=True, eq=False)
class _Followed:
    """A selection: its watch, and its followers."""

    watch: SelectionWatch
    task: asyncio.Task[None] | None = None
    followers: set[str] = field(default_factory=set)
    waiting: dict[str, int] = field(default_factory=dict)
    """Followers with waiting reads, with the number of these."""
    ending: Timer | None = None


class FollowedSelections:
    """Its owner runs `run` as a task; until then, reads wait."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._followed: dict[Selection, _Followed] = {}
        self._follows: dict[str, frozenset[Selection]] = {}
        self._handlers: list[Callable[[str], None]] = []
        self._untold: dict[tuple[str, Selection], None] = {}
        self._notification: Timer | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._suspicion: asyncio.Task[None] | None = None

    @property
    def watches(self) -> int:
        """The number of watches, including those that are not needed and about to end."""
        return len(self._followed)

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with each follower whose objects changed, were refused or came back. It must be quick."""
        self._handlers.append(handler)

    def selections_of(self, follower: str) -> frozenset[Selection]:
        return self._follows.get(follower, frozenset())

    async def read(self, follower: str, selection: Selection, timeout: float = READ_TIMEOUT) -> tuple[Object, ...]:
        """The selected objects, ordered by namespace and name; from now on `follower` follows them. The objects are shared and must
        not be changed. Raises the refusal of the server (Forbidden, Unauthorized, NotFound if it has no such kind), and
        Unreachable."""
        followed = self._join(follower, selection)
        watch = followed.watch
        if watch.known:
            return watch.objects
        error = self._outage(watch) or await self._wait(follower, followed, timeout)
        if error is None:
            return watch.objects
        # The traceback would grow each time the error is raised.
        raise error.with_traceback(None)

    def _outage(self, watch: SelectionWatch) -> KubeError | None:
        """The error to raise at once because the server is known to be unreachable: its last refusal, if there was one."""
        gate = self._client.gate
        if gate is None or gate.error is None:
            return None
        return watch.error if is_refusal(watch.error) else gate.error

    async def _wait(self, follower: str, followed: _Followed, timeout: float) -> KubeError | None:
        """Wait until the selection is known (None), or until it is clear why it is not."""
        followed.waiting[follower] = followed.waiting.get(follower, 0) + 1
        try:
            await within(self._clock, timeout, followed.watch.attempt())
        except TimeoutError:
            self._suspect()
        finally:
            followed.waiting[follower] -= 1
            if not followed.waiting[follower]:
                del followed.waiting[follower]
            self._end_unused(followed)
        if followed.watch.known:
            return None
        return followed.watch.error or Unreachable(self._client.server, f"no answer within {timeout:g} s")

    def _suspect(self) -> None:
        """The server did not answer. If it is unreachable, other readers should not each find that out by a timeout."""
        gate = self._client.gate
        if gate is not None and self._tasks is not None and (self._suspicion is None or self._suspicion.done()):
            self._suspicion = self._tasks.create_task(gate.check())

    def settle(self, follower: str, selections: Iterable[Selection]) -> None:
        """`follower` follows these selections and no others from now on."""
        before, after = self.selections_of(follower), frozenset(selections)
        for selection in after - before:
            self._join(follower, selection)
        for selection in before - after:
            followed = self._followed[selection]
            followed.followers.discard(follower)
            self._end_unused(followed)
        if after:
            self._follows[follower] = after
        else:
            self._follows.pop(follower, None)

    def forget(self, follower: str) -> None:
        self.settle(follower, ())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for followed in self._followed.values():
                    followed.task = tasks.create_task(followed.watch.run())
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                if self._notification is not None:
                    self._notification.cancel()
                    self._notification = None

    def _join(self, follower: str, selection: Selection) -> _Followed:
        followed = self._followed.get(selection)
        if followed is None:
            followed = self._followed[selection] = self._start(selection)
        if follower not in followed.followers:
            followed.followers.add(follower)
            self._follows[follower] = self.selections_of(follower) | {selection}
        if followed.ending is not None:
            followed.ending.cancel()
            followed.ending = None
        return followed

    def _start(self, selection: Selection) -> _Followed:
        try:
            selection.resource.path(selection.namespace)
        except ValueError as error:
            raise BadRequest(400, "BadRequest", str(error)) from error
        watch = SelectionWatch(self._client, selection, self._notify_later, self._clock, self._random)
        return _Followed(watch, None if self._tasks is None else self._tasks.create_task(watch.run()))

    def _end_unused(self, followed: _Followed) -> None:
        if not followed.followers and not followed.waiting and followed.ending is None:
            followed.ending = self._clock.call_later(UNUSED_WATCH_TIMEOUT, lambda: self._end(followed))

    def _end(self, followed: _Followed) -> None:
        followed.ending = None
        if followed.followers or followed.waiting:
            return
        del self._followed[followed.watch.selection]
        if followed.task is not None:
            followed.task.cancel()

    def _notify_later(self, selection: Selection) -> None:
        followed = self._followed[selection]
        self._untold |= dict.fromkeys((name, selection) for name in followed.followers if name not in followed.waiting)
        if self._untold and self._notification is None:
            self._notification = self._clock.call_later(NOTIFY_DELAY, self._notify)

    def _notify(self) -> None:
        self._notification = None
        untold, self._untold = self._untold, {}
        # Followers that no longer follow the selection are not notified.
        notified = dict.fromkeys(follower for follower, selection in untold if selection in self.selections_of(follower))
        for follower in notified:
            for handler in self._handlers:
                try:
                    handler(follower)
                except Exception as error:
                    log.error("handler failed", follower=follower, error=f"{type(error).__name__}: {error}")
