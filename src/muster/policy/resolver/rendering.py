"""Running templates beside an event loop.

A template cannot wait, but what it asks for may have to be fetched. A run begins on the loop, within a small budget. A function
that needs an answer starts the coroutine for it at once: answers that are at hand (objects in a cache) come without waiting. If the
coroutine has to wait, the run ends, the rest of the coroutine is awaited, and the template runs again with that answer known; a
question is asked once, and nothing is asked that the template does not come to. A run that exceeds the budget, or has to be
repeated too often, goes to a thread with the template's full limits, where functions wait for the loop.

Invariant: nothing here holds the loop for longer than the budget. Threads share the interpreter with the loop: while one runs, the
interpreter is set so that the loop's turn comes soon.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import time
import types
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from muster.gotemplate import LimitError, Limits
from muster.gotemplate.limits import current_meter

T = TypeVar("T")
INLINE_LIMITS: Final = Limits(output_bytes=256 * 1024, steps=20_000, seconds=0.02)
"""What a run may take on the loop."""
_INLINE_RUNS: Final = 16
"""After so many runs that had to wait for an answer, functions wait in a thread instead."""
_THREADS: Final = 4
_SWITCH_INTERVAL: Final = 0.001
"""Seconds after which a thread lets the loop run, while there are such threads."""
_STOP_INTERVAL: Final = 0.1
_NO_COLLECTION: Final = 1_000_000_000
_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="templates")


class _Suspended(BaseException):
    """Ends a run that has to wait; not an Exception, so that nothing takes it for a failure of the template."""

    def __init__(self, key: Hashable, rest: Coroutine[Any, Any, Any], awaited: Any) -> None:
        super().__init__()
        self.key = key
        self.rest = rest
        self.awaited = awaited


@types.coroutine
def _resumed(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that was started by hand and waits for `awaited`."""
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(sent)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


class Answers:
    """What functions inside one template's runs asked for, and got. Called by them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Tasks that are started while a template runs do not inherit that it does.
        self._context = contextvars.copy_context()
        self._outcomes: dict[Hashable, tuple[Any, Exception | None]] = {}
        self._waiting: Future[Any] | None = None
        self._cancelled = False
        self.in_thread = False

    def __call__(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        outcome: tuple[Any, Exception | None] | None = self._outcomes.get(key)
        if outcome is None:
            try:
                outcome = (self._wait(start()) if self.in_thread else self._start(key, start())), None
            except Exception as error:
                outcome = None, error
            self._outcomes[key] = outcome
        value, failure = outcome
        if failure is not None:
            raise failure.with_traceback(None)
        return cast(T, value)

    def _start(self, key: Hashable, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            awaited = self._context.run(coroutine.send, None)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        raise _Suspended(key, coroutine, awaited)

    async def finish(self, suspended: _Suspended) -> None:
        try:
            self._outcomes[suspended.key] = await _resumed(suspended.rest, suspended.awaited), None
        except Exception as error:
            self._outcomes[suspended.key] = None, error

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """In a thread; the time does not count against the template."""
        began = time.monotonic()
        self._waiting = self._context.copy().run(asyncio.run_coroutine_threadsafe, coroutine, self._loop)
        if self._cancelled:
            # Before there was anything to cancel: `cancel` first says so and then looks, this the other way round.
            self._waiting.cancel()
        try:
            return self._waiting.result()
        finally:
            self._waiting = None
            meter = current_meter.get()
            if meter is not None:
                meter.deadline += time.monotonic() - began

    def cancel(self) -> None:
        """Nobody waits for the thread any more: neither does it."""
        self._cancelled = True
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()


async def render(inline: Callable[[], str], unhurried: Callable[[], str], answers: Answers, *, heavy: bool) -> tuple[str, bool]:
    """The output, and whether it was too much for the loop. `heavy`: go to a thread at once."""
    if not heavy:
        for _ in range(_INLINE_RUNS):
            try:
                return inline(), False
            except _Suspended as suspended:
                await answers.finish(suspended)
            except LimitError:
                heavy = True
                break
    answers.in_thread = True
    return await run_in_thread(unhurried, answers.cancel), heavy


async def run_in_thread(call: Callable[[], T], on_cancel: Callable[[], None] = lambda: None) -> T:
    """For work that may take long. When nobody waits for it any more, a template in it ends at its next step."""
    context = contextvars.copy_context()
    future = _threads.submit(context.run, call)
    with _courtesy():
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            _stop(context, future)
            on_cancel()
            raise


def _stop(context: contextvars.Context, future: Future[Any]) -> None:
    """Whatever template runs in the thread is beyond its time. One that is about to run does so in a moment."""
    if not future.done():
        meter = context.get(current_meter)
        if meter is not None:
            meter.deadline = float("-inf")
        asyncio.get_running_loop().call_later(_STOP_INTERVAL, _stop, context, future)


class _Courtesy:
    """What is set while threads run beside the loop, so that it need not wait for them, and how it was before."""

    threads = 0
    switch_interval = 0.005
    collection = (700, 10, 10)


@contextmanager
def _courtesy() -> Iterator[None]:
    """Threads hand over often, and nobody collects garbage of all generations, for which everybody would have to wait: large
    documents are made of very many objects, few of which are ever garbage."""
    if _Courtesy.threads == 0:
        _Courtesy.switch_interval = sys.getswitchinterval()
        _Courtesy.collection = gc.get_threshold()
        sys.setswitchinterval(min(_SWITCH_INTERVAL, _Courtesy.switch_interval))
        gc.set_threshold(*_Courtesy.collection[:2], _NO_COLLECTION)
    _Courtesy.threads += 1
    try:
        yield
    finally:
        _Courtesy.threads -= 1
        if _Courtesy.threads == 0:
            sys.setswitchinterval(_Courtesy.switch_interval)
            gc.set_threshold(*_Courtesy.collection)
