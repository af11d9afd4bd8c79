"""While a server is away one probe goes out for all who follow it; a server that is there keeps nobody waiting for a dead kind."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from muster.runtime.cache import DynamicCache, FollowedSelections, Informer, Informers, Selection
from muster.runtime.cache import reflector as reflector_module
from muster.runtime.client import (
    ClientConfig,
    DelegatingClient,
    HttpClient,
    KubeError,
    Query,
    ServerFailure,
    StatusError,
    Unreachable,
)
from muster.runtime.client import gate as gate_module
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.gate import Gate
from tests.support.fake_clock import FakeClock, settle
from tests.unit.runtime import wire
from tests.unit.runtime.conftest import eventually
from tests.unit.runtime.scripted import ScriptedClient, bookmark
from tests.unit.runtime.test_informer import Log

REFUSED = Unreachable("scripted", "connection refused", sent=False)
RESET = Unreachable("scripted", "connection reset")


class Gated(ScriptedClient):
    """A server that is away while `away` is set, and whose kinds in the namespace `dead` never work."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.away: KubeError | None = None
        self.streams_asked: list[float] = []
        self.probes: list[float] = []
        self.opened = 0
        self._clock = clock
        self._cut = asyncio.Event()
        self._gate = Gate("scripted", self._probe, clock=clock, random=lambda: 0.5)

    @property
    def gate(self) -> Gate:
        return self._gate

    @property
    def attempts(self) -> list[float]:
        return self.streams_asked + self.probes

    async def _probe(self) -> None:
        self.probes.append(self._clock.monotonic())
        if self.away is not None:
            raise self.away

    def go(self, error: KubeError) -> None:
        self.away = error
        self._cut.set()
        self._cut = asyncio.Event()

    async def exchange(self, *given: Any, **more: Any) -> bytes:
        if self.away is not None:
            self.streams_asked.append(self._clock.monotonic())
            raise self.away
        return b'{"metadata":{"resourceVersion":"1"}}'

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self.streams_asked.append(self._clock.monotonic())
        if self.away is not None:
            raise self.away
        if "/dead/" in path:
            raise ServerFailure(503, "ServiceUnavailable", "no endpoints")
        cut = self._cut
        self.opened += 1
        if opened is not None:
            opened()
        if "sendInitialEvents" in query:
            yield orjson.dumps(bookmark(1, end=True))
        await cut.wait()
        raise RESET


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    log = Log()
    monkeypatch.setattr(gate_module, "log", log)
    monkeypatch.setattr(reflector_module, "log", log)
    return log.lines


@pytest.fixture
def client(clock: FakeClock) -> Gated:
    return Gated(clock)


@asynccontextmanager
async def running(*runners: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def informers(client: Any, count: int, clock: FakeClock) -> list[Informer[Any]]:
    return [Informer(client, CONFIG_MAPS, f"n{number}", clock=clock) for number in range(count)]


async def test_a_hundred_watches_of_a_dead_server_make_one_attempt_now_and_then_and_two_log_lines(
    client: Gated, clock: FakeClock, written: list[tuple[str, str]]
) -> None:
    async with running(*informers(client, 100, clock)):
        await settle()
        assert client.opened == 100
        client.go(REFUSED)
        await clock.advance(60)
        began = len(client.attempts)
        await clock.advance(540)
        assert len(client.attempts) - began < 0.1 * 540
        client.away = None
        await clock.advance(15)
        assert client.opened == 200
    assert written == [("warning", "server unreachable"), ("info", "server reachable again")]


async def test_the_pauses_between_probes_grow_to_a_quarter_of_a_minute(client: Gated, clock: FakeClock) -> None:
    async with running(*informers(client, 3, clock)):
        await settle()
        client.go(REFUSED)
        await clock.advance(100)
    pauses = [later - sooner for sooner, later in itertools.pairwise(client.probes)]
    assert pauses == pytest.approx([0.85, 1.7, 3.4, 6.8] + [12.75] * (len(pauses) - 4))


async def test_all_who_follow_through_a_client_share_its_gate(client: Gated, clock: FakeClock) -> None:
    shared = Informers(DelegatingClient(client), clock=clock)
    shared.of(CONFIG_MAPS)
    dynamic, selections = DynamicCache(client, clock=clock), FollowedSelections(client, clock=clock)
    selections.settle("p", [Selection(CONFIG_MAPS, "default", "a")])
    client.go(REFUSED)
    async with running(shared, dynamic, selections):
        await settle()
        assert len(client.streams_asked) <= 2
        before = len(client.streams_asked)
        await clock.advance(120)
        assert len(client.streams_asked) == before
        assert selections.watches == 1


async def test_a_server_that_answers_probes_keeps_nobody_waiting_for_a_dead_kind(
    client: Gated, clock: FakeClock, written: list[tuple[str, str]]
) -> None:
    dead: Informer[Any] = Informer(client, CONFIG_MAPS, "dead", clock=clock)
    (fine,) = informers(client, 1, clock)
    async with running(dead, fine):
        await clock.advance(60)
        assert fine.has_synced
        assert fine.outage == ""
        assert "no endpoints" in dead.outage
        assert client.gate.error is None
    assert written == [("warning", "cannot follow")]


async def test_when_the_one_who_probes_is_gone_the_next_goes_on_where_it_was(client: Gated, clock: FakeClock) -> None:
    first, second = informers(client, 2, clock)
    client.away = REFUSED
    async with running(second):
        async with running(first):
            await clock.advance(10)
            (due,) = clock.pending
        await settle()
        assert clock.pending == [due]
        client.away = None
        await clock.advance(due)
        assert second.has_synced


async def test_who_has_reached_the_server_brings_the_next_probe_forward_but_not_one_each_time(
    client: Gated, clock: FakeClock
) -> None:
    (informer,) = informers(client, 1, clock)
    client.away = REFUSED
    async with running(informer):
        await clock.advance(60)
        await clock.advance(clock.pending[0] + 2)
        before = len(client.probes)
        for _ in range(10):
            informer.hurry()
            await settle()
        assert len(client.probes) == before + 1


async def test_an_attempt_from_before_an_outage_is_given_up_when_the_server_is_back(client: Gated, clock: FakeClock) -> None:
    """Where packets vanish, a stream does not end."""
    silent, noticing = informers(client, 2, clock)
    async with running(silent):
        await settle()
        client.away = REFUSED
        async with running(noticing):
            await clock.advance(1)
            client.away = None
            await clock.advance(2)
            assert noticing.has_synced
            assert client.opened == 3


async def test_when_nobody_waits_any_more_nothing_is_said_of_the_server(client: Gated, clock: FakeClock) -> None:
    client.away = REFUSED
    async with running(*informers(client, 1, clock)):
        await settle()
        assert client.gate.error is REFUSED
    assert client.gate.error is None


class TestSelections:
    async def test_a_read_fails_at_once_while_the_server_is_known_to_be_away_and_heals(
        self, client: Gated, clock: FakeClock
    ) -> None:
        selections, told = FollowedSelections(client, clock=clock), list[str]()
        selections.on_change(told.append)
        async with running(selections):
            await selections.read("known", Selection(CONFIG_MAPS, "default", "a"))
            client.go(REFUSED)
            await clock.advance(100)
            asked = len(client.attempts)
            assert await selections.read("known", Selection(CONFIG_MAPS, "default", "a")) == ()
            with pytest.raises(Unreachable, match="refused"):
                await selections.read("new", Selection(CONFIG_MAPS, "default", "b"))
            assert len(client.attempts) == asked
            client.away = None
            await clock.advance(15.1)
            assert told == ["new"]
            assert await selections.read("new", Selection(CONFIG_MAPS, "default", "b")) == ()

    async def test_a_server_that_answers_nobody_is_waited_for_by_the_first_who_asks_only(
        self, client: Gated, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hole = asyncio.Event()

        async def swallow(*given: Any, **more: Any) -> bytes:
            await hole.wait()
            return b'{"metadata":{"resourceVersion":"1"}}'

        monkeypatch.setattr(client, "exchange", swallow)
        client.away = Unreachable("scripted", "no answer within 5 s")
        selections = FollowedSelections(client, clock=clock)
        async with running(selections):
            first = asyncio.create_task(selections.read("p", Selection(CONFIG_MAPS, "default", "a"), timeout=3))
            await clock.advance(3)
            assert isinstance(first.exception(), Unreachable)
            with pytest.raises(Unreachable):
                await selections.read("q", Selection(CONFIG_MAPS, "default", "b"), timeout=3)
            client.away = None
            hole.set()
            await clock.advance(2)
            assert await selections.read("q", Selection(CONFIG_MAPS, "default", "b")) == ()


class TestProbesOverHttp:
    async def test_whoever_answers_is_there_whatever_it_says_of_our_rights(self) -> None:
        async def unauthorized(writer: asyncio.StreamWriter, number: int) -> bool:
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}")
            return True

        async with wire.serving(unauthorized) as (script, url):
            client = HttpClient(ClientConfig(url))
            assert not await client.gate.is_closed_by(RESET)
            assert script.heads[0].startswith("GET /readyz ")
            await client.close()

    async def test_a_server_that_is_not_ready_is_waited_for_but_not_for_ever(self, clock: FakeClock) -> None:
        async def unready(writer: asyncio.StreamWriter, number: int) -> bool:
            ready = "/version" in script.heads[-1]
            writer.write(wire.OK if ready else b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}")
            return True

        async with wire.serving(unready) as (script, url):
            client = HttpClient(ClientConfig(url), clock=clock, random=lambda: 0.0)
            assert await client.gate.is_closed_by(RESET)
            assert isinstance(client.gate.error, StatusError)
            passing = asyncio.create_task(client.gate.passage())
            for _ in range(4):
                await clock.advance(await eventually(lambda: clock.pending and clock.pending[0]))
            await eventually(lambda: clock.pending)
            assert clock.monotonic() < 30
            assert not passing.done()
            await clock.advance(15)
            await eventually(lambda: clock.pending or passing.done())
            await clock.advance(15)
            await asyncio.wait_for(passing, 5)
            await client.close()

    async def test_a_request_that_succeeds_brings_the_next_probe_forward(self, clock: FakeClock) -> None:
        async with wire.serving(wire.ok) as (_, url):
            client = HttpClient(ClientConfig(url), clock=clock)
            assert await client.gate.is_closed_by(REFUSED)
            passing = asyncio.create_task(client.gate.passage())
            await settle()
            await client.server_version()
            await asyncio.wait_for(passing, 5)
            await client.close()
