"""Watchers that read slowly or not at all: nothing is kept for them, they miss nothing, and nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson
import pytest

from muster.apiserver.client import DirectClient
from muster.apiserver.handlers import watches
from muster.apiserver.long_running_requests import OpenRequests
from muster.apiserver.server import ApiServer
from muster.http import RawConnection
from tests.unit.apiserver.conftest import eventually

MAPS = "/api/v1/namespaces/default/configmaps"
LARGE = "y" * 100_000


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": LARGE}}


def names(lines: list[bytes]) -> list[str]:
    return [orjson.loads(line)["object"]["metadata"]["name"] for line in lines]


async def opened(server: ApiServer, lines: AsyncGenerator[bytes, None]) -> bytes:
    """The first event, with the rest left unread."""
    first = await anext(lines)
    assert len(server.clusters["default"].part(OpenRequests)) == 1
    return first


async def test_one_that_does_not_read_is_given_the_rest_from_history_when_it_does(server: ApiServer, client: DirectClient) -> None:
    lines = client.lines(MAPS, {"watch": "true", "fieldSelector": "metadata.name!=kube-root-ca.crt"})
    await client.create(MAPS, config_map("n00"))
    seen = [await opened(server, lines)]
    for number in range(1, 40):
        await client.create(MAPS, config_map(f"n{number:02}"))
    while len(seen) < 40:
        seen.append(await anext(lines))
    assert names(seen) == [f"n{number:02}" for number in range(40)]
    await client.create(MAPS, config_map("later"))
    assert names([await anext(lines)]) == ["later"]
    await lines.aclose()


async def test_what_waits_for_one_that_does_not_read_is_little(server: ApiServer, client: DirectClient) -> None:
    lines = client.lines(MAPS, {"watch": "true"})
    await opened(server, lines)
    (request,) = server.clusters["default"].part(OpenRequests)._open
    for number in range(60):
        await client.create(MAPS, config_map(f"n{number:02}"))
    assert request.connection is not None
    assert not isinstance(request.connection, RawConnection)
    assert 0 < request.connection.buffered < watches.MAX_UNREAD_BYTES + 2 * len(LARGE)
    await lines.aclose()


async def test_one_that_history_has_left_behind_is_told_to_list_again(server: ApiServer, client: DirectClient) -> None:
    lines = client.lines(MAPS, {"watch": "true"})
    await opened(server, lines)
    for number in range(20):
        await client.create(MAPS, config_map(f"n{number:02}"))
    await server.store.compact(server.store.revision)
    seen = [orjson.loads(line) async for line in lines]
    assert len(seen) < 20
    assert (seen[-1]["type"], seen[-1]["object"]["code"], seen[-1]["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_one_that_takes_nothing_for_long_is_cut_off(
    server: ApiServer, client: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "STALLED_TIMEOUT", 0.1)
    lines = client.lines(MAPS, {"watch": "true"})
    await opened(server, lines)
    for number in range(20):
        await client.create(MAPS, config_map(f"n{number:02}"))
    await eventually(lambda: not len(server.clusters["default"].part(OpenRequests)), "the watch is over")
    assert len([line async for line in lines]) < 20


async def test_a_large_first_state_is_sent_as_it_is_read(server: ApiServer, client: DirectClient) -> None:
    for number in range(40):
        await client.create(MAPS, config_map(f"n{number:02}"))
    query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    lines = client.lines(MAPS, query)
    seen = [await opened(server, lines)]
    (request,) = server.clusters["default"].part(OpenRequests)._open
    assert request.connection is not None
    assert not isinstance(request.connection, RawConnection)
    assert request.connection.buffered < watches.MAX_UNREAD_BYTES + 2 * len(LARGE)
    await client.create(MAPS, config_map("meanwhile"))
    while '"BOOKMARK"' not in seen[-1].decode():
        seen.append(await anext(lines))
    assert len(seen) == 42  # with kube-root-ca.crt
    assert names([await anext(lines)]) == ["meanwhile"]
    await lines.aclose()


async def test_no_bookmark_promises_what_was_not_sent(
    server: ApiServer, client: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "BOOKMARK_INTERVAL", 0.02)
    lines = client.lines(MAPS, {"watch": "true", "allowWatchBookmarks": "true"})
    await opened(server, lines)
    for number in range(20):
        await client.create(MAPS, config_map(f"n{number:02}"))
    await asyncio.sleep(0.1)  # several bookmarks would be due
    revision = 0
    created = 0
    while created < 20:
        event = orjson.loads(await anext(lines))
        now = int(event["object"]["metadata"]["resourceVersion"])
        assert now >= revision
        revision = now
        created += event["type"] == "ADDED"
    await lines.aclose()
