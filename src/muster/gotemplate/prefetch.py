"""Rendering with asynchronous functions, and the calls that the output depends on.

Template execution is synchronous, but a function such as `lookup` may need requests. `render_async` executes each distinct call
once: calls with constant arguments are started together before the first run; a run that reaches a call without a result stops
there, the call is awaited, and the template runs again. Runs are cheap and each distinct call is executed once, so a template with
n dependent calls costs n short runs. The calls of the successful run are the dependencies of its output, in the order in which they
were first made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from muster.gotemplate.template import Template


class Call(NamedTuple):
    """A call of a template function."""

    name: str
    args: tuple[Any, ...]


class _NotAnswered(BaseException):
    """Stops a run; not an Exception, so that no handler takes it for a failure of the template."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


class _Answers:
    def __init__(self, bind: Mapping[str, Callable[..., Awaitable[Any]]], concurrency: int) -> None:
        self.bind = bind
        self.outcomes: dict[Call, tuple[Any, Exception | None]] = {}
        self.used: dict[Call, None] = {}
        self.slots = asyncio.Semaphore(concurrency)

    async def fetch(self, call: Call) -> None:
        async with self.slots:
            try:
                self.outcomes[call] = await self.bind[call.name](*call.args), None
            except Exception as error:
                self.outcomes[call] = None, error

    def function(self, name: str) -> Callable[..., Any]:
        def answered(*args: Any) -> Any:
            call = Call(name, args)
            self.used[call] = None
            outcome = self.outcomes.get(call)
            if outcome is None:
                raise _NotAnswered(call)
            value, error = outcome
            if error is not None:
                raise error
            return value

        return answered


async def render_async(
    template: Template, data: Any, bind: Mapping[str, Callable[..., Awaitable[Any]]], concurrency: int
) -> tuple[str, list[Call]]:
    answers = _Answers(bind, concurrency)
    functions = {name: answers.function(name) for name in bind}
    async with asyncio.TaskGroup() as group:
        for call in dict.fromkeys(template.constant_calls(frozenset(bind))):
            group.create_task(answers.fetch(call))
    while True:
        answers.used.clear()
        try:
            return template.render(data, bind=functions), list(answers.used)
        except _NotAnswered as missing:
            await answers.fetch(missing.call)
