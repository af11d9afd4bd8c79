"""Names with several addresses: the first that answers is taken, a dead one costs a moment, nothing is left behind."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from muster.http.happy_eyeballs import Address, alternating, first, is_address

from .wire import WAIT


class Network:
    """Places that answer at once (`good`), refuse (`bad`), or let every packet vanish (all others)."""

    def __init__(self, *, good: str = "", bad: str = "") -> None:
        self.good, self.bad = set(good), set(bad)
        self.tried: list[str] = []
        self.given_up: list[str] = []
        self.undone: list[str] = []

    async def attempt(self, place: str) -> str:
        self.tried.append(place)
        if place in self.bad:
            raise ConnectionRefusedError(111, place)
        if place not in self.good:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.append(place)
        return place

    async def reach(self, places: str) -> str:
        async with asyncio.timeout(WAIT):
            return await first(places, self.attempt, self.undone.append)


async def test_an_address_that_leads_nowhere_costs_a_moment_only() -> None:
    network = Network(good="b")
    assert await network.reach("abc") == "b"
    await asyncio.sleep(0)
    assert network.tried == ["a", "b"]
    assert network.given_up == ["a"]


async def test_a_good_first_address_is_the_only_one_tried() -> None:
    network = Network(good="ab")
    assert await network.reach("ab") == "a"
    assert network.tried == ["a"]


async def test_a_refusal_brings_the_next_address_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.http.happy_eyeballs.DELAY", 10 * WAIT)
    network = Network(good="c", bad="ab")
    assert await network.reach("abc") == "c"


async def test_if_all_refuse_that_is_said() -> None:
    network = Network(bad="abc")
    with pytest.raises(ConnectionRefusedError):
        await network.reach("abc")
    assert network.tried == ["a", "b", "c"]


async def test_what_comes_too_late_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.http.happy_eyeballs.DELAY", 0)
    undone: list[str] = []
    both = asyncio.Event()

    async def stubborn(place: str) -> str:
        if place == "b":
            both.set()
        try:
            await both.wait()
            if place == "a":
                await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            pass  # it was connected when it heard
        return place

    assert await first("ab", stubborn, undone.append) == "b"
    async with asyncio.timeout(WAIT):
        while not undone:  # noqa: ASYNC110 - only this test waits for it
            await asyncio.sleep(0)
    assert undone == ["a"]


async def test_who_gives_up_leaves_no_attempt_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.http.happy_eyeballs.DELAY", 0)
    network = Network()
    reaching = asyncio.create_task(network.reach("ab"))
    async with asyncio.timeout(WAIT):
        while len(network.tried) < 2:  # noqa: ASYNC110 - only this test waits for it
            await asyncio.sleep(0)
    reaching.cancel()
    await asyncio.gather(reaching, return_exceptions=True)
    await asyncio.sleep(0)
    assert sorted(network.given_up) == ["a", "b"]


def test_families_take_turns_in_the_resolvers_order() -> None:
    def place(family: socket.AddressFamily, name: str) -> Address:
        return family, 6, name

    six, four = socket.AF_INET6, socket.AF_INET
    found = [place(six, "a"), place(six, "b"), place(six, "c"), place(four, "d"), place(four, "e")]
    names: list[Any] = [name for _, _, name in alternating(found)]
    assert names == ["a", "d", "b", "e", "c"]
    assert alternating(found[:1]) == found[:1]


def test_an_address_needs_no_resolver() -> None:
    assert [is_address(host) for host in ("127.0.0.1", "::1", "localhost", "1.2.3", "a..b")] == [True, True, False, False, False]
