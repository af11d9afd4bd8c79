"""Templates whose answers have to be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from muster.gotemplate import Func
from muster.gotemplate.limits import current_meter
from muster.machinery.objects import Object
from muster.policy.dependencies import LocalSource
from muster.policy.resolver import ResolveError, ResolveOptions, Resolver
from muster.policy.resolver.template_runner import PendingResults
from muster.runtime.cache.selections import Selection
from muster.runtime.client.errors import Unreachable
from tests.unit.policy.resolver.conftest import OBJECTS
from tests.unit.runtime.conftest import eventually


class Slow(LocalSource):
    """PendingResults after some turns of the loop, or never."""

    def __init__(self, turns: int = 1) -> None:
        super().__init__(OBJECTS)
        self.turns = turns
        self.reads: list[str] = []
        self.stuck: set[str] = set()
        self.meters: list[Any] = []
        self.abandoned: list[str] = []

    async def read(self, selection: Selection) -> Sequence[Object]:
        self.reads.append(selection.name)
        self.meters.append(current_meter.get())
        for _ in range(self.turns):
            await asyncio.sleep(0)
        if selection.name in self.stuck:
            try:
                await asyncio.Event().wait()
            finally:
                self.abandoned.append(selection.name)
        async with asyncio.timeout(10):
            return await super().read(selection)


def value(*names: str) -> str:
    return "".join(f'{{{{ fromConfigMap "shop" "{name}" "color" }}}} ' for name in names)


@pytest.mark.parametrize("turns", [0, 1, 5])
@pytest.mark.parametrize("heavy", [False, True], ids=["on the loop", "in a thread"])
async def test_answers_are_waited_for_and_asked_for_once(turns: int, heavy: bool) -> None:
    source = Slow(turns)
    load = "{{ range until 30000 }}{{ end }}" if heavy else ""
    resolution = await Resolver().resolve({"v": load + value("zone-a", "zone-b", "zone-a", "settings")}, source)
    assert resolution.value == {"v": "red green red blue "}
    assert source.reads == ["zone-a", "zone-b", "settings"]


async def test_a_template_that_waits_often_is_not_begun_again_each_time() -> None:
    runs: list[str] = []

    def begin() -> str:
        runs.append("")
        return ""

    functions = {"begin": Func(lambda: "", (), late=True)}
    options = ResolveOptions(custom_functions=functions, bind={"begin": begin})
    names = [f"gone-{number}" for number in range(60)]
    lookups = "".join(f'{{{{ len (lookup "v1" "ConfigMap" "shop" "{name}") }}}}' for name in names)
    source = Slow()
    resolution = await Resolver().resolve({"v": "{{ begin }}x" + lookups}, source, options)
    assert resolution.value == {"v": "x" + "0" * 60}
    assert source.reads == names
    assert len(runs) < 20


async def test_what_is_started_while_a_template_runs_does_not_belong_to_it() -> None:
    source = Slow()
    await Resolver().resolve({"v": value("zone-a")}, source)
    await Resolver().resolve({"v": "{{ range until 30000 }}{{ end }}" + value("zone-b")}, source)
    assert source.reads == ["zone-a", "zone-b"]
    assert source.meters == [None, None]


async def test_one_who_waits_delays_nobody_else() -> None:
    source = Slow()
    source.stuck = {"zone-a"}
    resolver = Resolver()
    stuck = asyncio.create_task(resolver.resolve({"v": value("zone-a")}, source))
    await asyncio.sleep(0)
    assert (await resolver.resolve({"v": value("zone-b")}, source)).value == {"v": "green "}
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    assert source.abandoned == ["zone-a"]


async def test_one_who_waits_in_a_thread_can_be_cancelled() -> None:
    source = Slow()
    source.stuck = {"zone-a"}
    task = asyncio.create_task(Resolver().resolve({"v": "{{ range until 30000 }}{{ end }}" + value("zone-a")}, source))
    await eventually(lambda: source.reads)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: source.abandoned)


async def test_a_thread_that_is_about_to_wait_when_it_is_cancelled_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, begun = PendingResults(), asyncio.Event()
    answers.in_thread = True
    start = asyncio.run_coroutine_threadsafe

    def cancelled_at_once(coroutine: Any, loop: asyncio.AbstractEventLoop) -> Any:
        future = start(coroutine, loop)
        answers.cancel()
        return future

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", cancelled_at_once)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.to_thread(answers, "key", begun.wait), 30)


@pytest.mark.parametrize("fail", [lambda source: source.read, lambda source: source.mapping], ids=["read", "mapping"])
async def test_what_fails_after_waiting_fails_the_template(fail: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    away = Unreachable("https://hub", "connection refused")

    async def refuse(*_args: Any) -> Any:
        await asyncio.sleep(0)
        raise away

    source = Slow()
    monkeypatch.setattr(source, fail(source).__name__, refuse)
    with pytest.raises(ResolveError, match="connection refused") as raised:
        await Resolver().resolve({"v": value("zone-a")}, source)
    assert raised.value.__cause__ is away


async def test_many_documents_are_resolved_at_the_same_time() -> None:
    source = Slow(3)
    resolver = Resolver()
    documents = [{"v": value("zone-a", "zone-b") + str(number)} for number in range(50)]
    resolutions = await asyncio.gather(*(resolver.resolve(document, source) for document in documents))
    assert [one.value["v"] for one in resolutions] == [f"red green {number}" for number in range(50)]


async def test_a_resolved_document_belongs_to_who_asked() -> None:
    resolver, source = Resolver(), LocalSource(OBJECTS)
    document = {"v": ["{{ 1 }}"]}
    first = (await resolver.resolve(document, source)).value
    first["v"].append("changed")
    assert (await resolver.resolve(document, source)).value == {"v": ["1"]}
    assert document == {"v": ["{{ 1 }}"]}
