"""An APIService that was there before its gateway is looked at when the gateway answers, and left alone once it is available."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from muster.gateway.announcement import ANSWERS_SINCE, RETRY_DELAYS, announce
from muster.gateway.apiservice import api_service
from muster.runtime.client import Forbidden, KubeClient
from muster.runtime.client.builtin import API_SERVICES
from tests.support.fake_clock import FakeClock

NAME = "v1alpha1.proxy.open-cluster-management.io"


class Hub:
    """Knows one APIService, which becomes available after so many looks at it."""

    def __init__(self, available_after: int, *, forbidden: bool = False) -> None:
        self.left = available_after
        self.forbidden = forbidden
        self.touched: list[str] = []

    async def get(self, resource: Any, name: str, namespace: str = "", **options: Any) -> Any:
        assert (resource, name) == (API_SERVICES, NAME)
        if self.forbidden:
            raise Forbidden(403)
        status = "False" if self.left else "True"
        found = api_service("proxy.open-cluster-management.io", "v1alpha1", "hub", b"")
        return {**found, "status": {"conditions": [{"type": "Available", "status": status}]}}

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", **options: Any) -> Any:
        if self.forbidden:
            raise Forbidden(403)
        self.touched.append(patch["metadata"]["annotations"][ANSWERS_SINCE])
        self.left -= 1
        return {}


async def announced(hub: Hub) -> float:
    """How long it took, by the clock."""
    clock = FakeClock()
    began = clock.monotonic()
    task = asyncio.create_task(announce(cast(KubeClient, hub), [NAME], clock=clock))
    while not task.done():
        await clock.advance(0.5)
    await task
    return clock.monotonic() - began


async def test_what_is_available_is_left_alone() -> None:
    hub = Hub(0)
    await announced(hub)
    assert hub.touched == []


async def test_what_is_not_available_is_touched_until_it_is() -> None:
    hub = Hub(3)
    assert await announced(hub) >= sum(RETRY_DELAYS[:3])
    assert len(hub.touched) == len(set(hub.touched)) == 3


async def test_what_never_is_available_is_left_to_the_api_server() -> None:
    hub = Hub(100)
    await announced(hub)
    assert len(hub.touched) == len(RETRY_DELAYS) + 1


async def test_without_the_right_to_touch_it_nothing_happens() -> None:
    hub = Hub(1, forbidden=True)
    await announced(hub)
    assert hub.touched == []
