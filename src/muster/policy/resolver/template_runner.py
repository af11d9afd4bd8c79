"""Runs templates without blocking the event loop.

A template cannot wait, but the objects that it reads may have to be fetched. A run starts on the loop, with a small budget. A
function that reads starts its coroutine at once: cached objects are returned without waiting. If the coroutine has to wait, the
run ends, the rest of the coroutine is awaited, and the template runs again with this result; each read is made once, and only if
the template gets to it. A run that exceeds the budget, or has to be repeated too often, is moved to a thread with the template's
full limits, where functions wait for the loop.

Invariant: nothing here blocks the loop for longer than the budget. Threads share the interpreter with the loop: while one runs,
the interpreter switches threads more often.
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
"""The budget of a run on the loop."""
_INLINE_RUNS: Final = 16
"""Number of runs on the loop after which functions wait in a thread instead."""
_THREADS: Final = 4
_SWITCH_INTERVAL: Final = 0.001
"""The interpreter's switch interval in seconds while threads are running."""
_STOP_INTERVAL: Final = 0.1
_NO_COLLECTION: Final = 1_000_000_000
_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="templates")


class _Suspended(BaseException):
    """Ends a run that has to wait; not an Exception, so that it is not handled as an error of the template."""

    def __init__(self, key: Hashable, rest: Coroutine[Any, Any, Any], awaited: Any) -> None:
        super().__init__()
        self.key = key
        self.rest = rest
        self.awaited = awaited


@types.coroutine
def _resumed(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that was started manually and waits for `awaited`."""
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


class PendingResults:
    """Results of the coroutines that functions have started in the runs of one template. Functions call it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Tasks started by a template must not inherit its meter.
        self._context = contextvars.copy_context()
        self._results: dict[Hashable, tuple[Any, Exception | None]] = {}
        self._waiting: Future[Any] | None = None
        self._cancelled = False
        self.in_thread = False

    def __call__(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result: tuple[Any, Exception | None] | None = self._results.get(key)
        if result is None:
            try:
                result = (self._wait(start()) if self.in_thread else self._start(key, start())), None
            except Exception as error:
                result = None, error
            self._results[key] = result
        value, failure = result
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
            self._results[suspended.key] = await _resumed(suspended.rest, suspended.awaited), None
        except Exception as error:
            self._results[suspended.key] = None, error

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """In a thread; the time does not count against the template's limits."""
        began = time.monotonic()
        self._waiting = self._context.copy().run(asyncio.run_coroutine_threadsafe, coroutine, self._loop)
        if self._cancelled:
            # `cancel` sets the flag before it reads the future, this does it in reverse order: one of both cancels.
            self._waiting.cancel()
        try:
            return self._waiting.result()
        finally:
            self._waiting = None
            meter = current_meter.get()
            if meter is not None:
                meter.deadline += time.monotonic() - began

    def cancel(self) -> None:
        """The thread's result is no longer needed: stop its waiting."""
        self._cancelled = True
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()


async def render(
    inline: Callable[[], str], threaded: Callable[[], str], answers: PendingResults, *, heavy: bool
) -> tuple[str, bool]:
    """The output, and whether it exceeded the budget of the loop. `heavy`: start in a thread at once."""
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
    return await run_in_thread(threaded, answers.cancel), heavy


async def run_in_thread(call: Callable[[], T], on_cancel: Callable[[], None] = lambda: None) -> T:
    """For work that may take long. If the caller is cancelled, a template in the thread ends at its next step."""
    context = contextvars.copy_context()
    future = _threads.submit(context.run, call)
    with _yield_to_loop():
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            _stop(context, future)
            on_cancel()
            raise


def _stop(context: contextvars.Context, future: Future[Any]) -> None:
    """Expire the limits of the template in the thread. If it has not started yet, try again."""
    if not future.done():
        meter = context.get(current_meter)
        if meter is not None:
            meter.deadline = float("-inf")
        asyncio.get_running_loop().call_later(_STOP_INTERVAL, _stop, context, future)


class _InterpreterSettings:
    """Former settings of the interpreter while threads are running, and their number."""

    threads = 0
    switch_interval = 0.005
    collection = (700, 10, 10)


@contextmanager
def _yield_to_loop() -> Iterator[None]:
    """Threads switch more often, and full garbage collections, which would stop the loop, are disabled: large documents consist
    of very many objects, few of which are garbage."""
    if _InterpreterSettings.threads == 0:
        _InterpreterSettings.switch_interval = sys.getswitchinterval()
        _InterpreterSettings.collection = gc.get_threshold()
        sys.setswitchinterval(min(_SWITCH_INTERVAL, _InterpreterSettings.switch_interval))
        gc.set_threshold(*_InterpreterSettings.collection[:2], _NO_COLLECTION)
    _InterpreterSettings.threads += 1
    try:
        yield
    finally:
        _InterpreterSettings.threads -= 1
        if _InterpreterSettings.threads == 0:
            sys.setswitchinterval(_InterpreterSettings.switch_interval)
            gc.set_threshold(*_InterpreterSettings.collection)
