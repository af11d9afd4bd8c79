"""Reads of a cluster that are followed: one watch per selection, shared by all who read it, for as long as somebody needs it.

A follower is a name (a policy's). What it reads it follows, until it settles on fewer selections or is forgotten; handlers are
told its name when something it follows changed, was refused, or came back. That is told a moment after it came, so that several
changes are one piece of news, and only to those who do not learn of it otherwise: a read that waits gets the answer itself.

A read is answered from memory where the selection is known. Otherwise it waits for its watch, and for no other: the server's
refusal, its silence and its absence are raised for whoever asked, and nothing is held meanwhile that others need.
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
"""Seconds between a change and the word of it."""
UNUSED_WATCH_TIMEOUT: Final = 2.0
"""Seconds for which a watch goes on that nobody needs."""


@dataclass(slots=True, eq=False)
class _Followed:
    """A selection: its watch, and who needs it."""

    watch: SelectionWatch
    task: asyncio.Task[None] | None = None
    followers: set[str] = field(default_factory=set)
    waiting: dict[str, int] = field(default_factory=dict)
    """Followers that wait for it, with how many reads."""
    ending: Timer | None = None


class FollowedSelections:
    """`run` is to be a task of its owner; until it runs, reads wait."""

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
        """How many there are, those included that nobody needs and that are about to end."""
        return len(self._followed)

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with each follower whose objects changed, were refused or came back. It must be quick."""
        self._handlers.append(handler)

    def selections_of(self, follower: str) -> frozenset[Selection]:
        return self._follows.get(follower, frozenset())

    async def read(self, follower: str, selection: Selection, timeout: float = READ_TIMEOUT) -> tuple[Object, ...]:
        """What is selected, ordered by namespace and name; from now on `follower` follows it. The objects are shared: look, do not
        touch. Raises what the server said (Forbidden, Unauthorized, NotFound where it has no such kind), and Unreachable."""
        followed = self._join(follower, selection)
        watch = followed.watch
        if watch.known:
            return watch.objects
        error = self._outage(watch) or await self._wait(follower, followed, timeout)
        if error is None:
            return watch.objects
        # A traceback of each time it is raised would grow and grow.
        raise error.with_traceback(None)

    def _outage(self, watch: SelectionWatch) -> KubeError | None:
        """What is to be said at once, because the server is known to be away: its last word, if there was one."""
        gate = self._client.gate
        if gate is None or gate.error is None:
            return None
        return watch.error if is_refusal(watch.error) else gate.error

    async def _wait(self, follower: str, followed: _Followed, timeout: float) -> KubeError | None:
        """Until the selection is known (None), or until it is clear why it is not."""
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
        """The server did not answer. If it answers nobody, others need not find that out one by one."""
        gate = self._client.gate
        if gate is not None and self._tasks is not None and (self._suspicion is None or self._suspicion.done()):
            self._suspicion = self._tasks.create_task(gate.check())

    def settle(self, follower: str, selections: Iterable[Selection]) -> None:
        """From now on `follower` is about these and no others."""
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
        # Whoever has turned away in the meantime is not told.
        notified = dict.fromkeys(follower for follower, selection in untold if selection in self.selections_of(follower))
        for follower in notified:
            for handler in self._handlers:
                try:
                    handler(follower)
                except Exception as error:
                    log.error("handler failed", follower=follower, error=f"{type(error).__name__}: {error}")
