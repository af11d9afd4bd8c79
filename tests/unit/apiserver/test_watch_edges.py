"""Watches in trouble: conversions that are slow or fail, definitions that change."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.apiserver.client import DirectClient
from muster.apiserver.errors import internal
from muster.apiserver.handlers import watches
from muster.apiserver.long_running_requests import OpenRequests
from muster.apiserver.server import ApiServer
from tests.unit.apiserver.conftest import eventually
from tests.unit.apiserver.test_consistency import DEFINITIONS, THINGS, definition, serve_things, thing

CONVERTED = THINGS.replace("/v1/", "/v2/")


class Conversion:
    """Plays the conversion webhook of a second version: waits for the gate, then converts or fails."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.needs_webhook = True
        self.gate = asyncio.Event()
        self.fails = False
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def present(self, value: bytes) -> None:
        return None

    async def from_storage(self, objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        self.asked += 1
        await self.gate.wait()
        if self.fails:
            raise internal("the webhook is down")
        return [{**obj, "apiVersion": "example.com/v2"} for obj in objects]


@pytest.fixture
async def conversion(server: ApiServer, client: DirectClient) -> Conversion:
    await serve_things(server, client)
    table = server.clusters["default"].resources
    row = table.get("example.com", "v1", "things")
    assert row is not None
    made = Conversion(row.strategy)
    second = replace(row, version="v2", storage_version="example.com/v1", strategy=made)
    table.replace_custom("example.com", "things", [row, second])
    return made


class Following:
    """A watch running beside the test, and what it has seen."""

    def __init__(self, events: AsyncIterator[tuple[str, dict[str, Any]]]) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.ended = False
        self._task = asyncio.create_task(self._run(events))

    async def _run(self, events: AsyncIterator[tuple[str, dict[str, Any]]]) -> None:
        async for event in events:
            self.seen.append(event)
        self.ended = True

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.seen]

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def subscriptions(server: ApiServer) -> int:
    scopes = server.store._watches  # type: ignore[attr-defined]
    return sum(len(watches) for scope, watches in scopes.items() if scope[:2] == ("default", "example.com/things"))


async def test_a_watch_given_up_while_its_first_state_is_converted_leaves_nothing_behind(
    server: ApiServer, client: DirectClient, conversion: Conversion
) -> None:
    await client.create(THINGS, thing("a"))
    following = Following(client.watch(CONVERTED))
    await eventually(lambda: conversion.asked, "the first state is being converted")
    await following.stop()
    await eventually(lambda: not len(server.clusters["default"].part(OpenRequests)), "the watch ends")
    assert subscriptions(server) == 0


async def test_a_bookmark_does_not_overtake_events_that_are_still_being_converted(
    client: DirectClient, conversion: Conversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "BOOKMARK_INTERVAL", 0.05)
    start = (await client.get(THINGS))["metadata"]["resourceVersion"]
    following = Following(client.watch(CONVERTED, {"resourceVersion": start, "allowWatchBookmarks": "true"}))
    await eventually(lambda: following.seen, "a first bookmark")
    created = await client.create(THINGS, thing("a"))
    await eventually(lambda: conversion.asked, "the event is being converted")
    await asyncio.sleep(0.2)  # several bookmarks would be due
    revision = int(created["metadata"]["resourceVersion"])
    assert all(int(obj["metadata"]["resourceVersion"]) < revision for _, obj in following.seen)
    conversion.gate.set()
    await eventually(lambda: "ADDED" in following.kinds(), "the event")
    await following.stop()


async def test_a_watch_whose_conversion_fails_says_so_and_ends(client: DirectClient, conversion: Conversion) -> None:
    start = (await client.get(THINGS))["metadata"]["resourceVersion"]
    following = Following(client.watch(CONVERTED, {"resourceVersion": start}))
    await asyncio.sleep(0)
    conversion.fails = True
    conversion.gate.set()
    await client.create(THINGS, thing("a"))
    await eventually(lambda: following.ended, "the watch ends instead of going silent")
    assert following.kinds() == ["ERROR"]
    await following.stop()


async def test_a_running_watch_follows_a_change_of_the_definition(server: ApiServer, client: DirectClient) -> None:
    await serve_things(server, client)
    following = Following(client.watch(THINGS))
    changed = definition()
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}},
    }
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    await client.merge(f"{DEFINITIONS}/things.example.com", {"spec": changed["spec"]})
    await client.create(THINGS, {**thing("a"), "spec": {}})
    await client.create(THINGS, {**thing("b"), "spec": {"size": 5}})
    await eventually(lambda: len(following.seen) == 2, "both events")
    assert [obj["spec"]["size"] for _, obj in following.seen] == [3, 5]
    await following.stop()


async def test_a_watch_ends_when_its_definition_is_gone(server: ApiServer, client: DirectClient) -> None:
    await serve_things(server, client)
    following = Following(client.watch(THINGS))
    await client.create(THINGS, thing("a"))
    await eventually(lambda: following.seen, "the event")
    await client.delete(f"{DEFINITIONS}/things.example.com")
    await eventually(lambda: following.ended, "the watch ends")
    assert following.kinds() == ["ADDED", "DELETED"]
    await following.stop()


async def test_a_conversion_that_is_slow_holds_no_more_than_some_events(
    client: DirectClient, conversion: Conversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "MAX_QUEUED_BYTES", 2000)
    start = (await client.get(THINGS))["metadata"]["resourceVersion"]
    following = Following(client.watch(CONVERTED, {"resourceVersion": start}))
    for number in range(40):
        await client.create(THINGS, thing(f"t{number:02}"))
    await eventually(lambda: conversion.asked, "events are being converted")
    conversion.gate.set()
    await eventually(lambda: len(following.seen) == 40, "all events, those of history too")
    assert [obj["metadata"]["name"] for _, obj in following.seen] == [f"t{number:02}" for number in range(40)]
    await following.stop()
