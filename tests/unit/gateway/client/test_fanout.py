"""Many clusters at once: every one has its result, and none of them harms another."""

from __future__ import annotations

import asyncio
import threading

import pytest

from muster.gateway.client import ClusterUnknown, current_cluster, fanout, fanout_threads
from muster.runtime.client import status_error

NAMES = [f"c{number}" for number in range(20)]
ABOUT = {"group": "proxy.open-cluster-management.io", "kind": "clustergateways", "name": "c3"}
UNKNOWN = {"kind": "Status", "code": 404, "details": ABOUT}


async def test_every_cluster_has_a_result_and_failures_are_those_of_one() -> None:
    async def ask(cluster: str) -> str:
        await asyncio.sleep(0)
        assert current_cluster.get() == cluster
        if cluster == "c3":
            raise status_error(404, UNKNOWN)
        if cluster == "c4":
            await asyncio.Event().wait()
        return cluster.upper()

    found = {one.cluster: one async for one in fanout(NAMES, ask, limit=7, timeout=0.05)}
    assert set(found) == set(NAMES)
    assert [name for name, one in found.items() if not one.ok] in (["c3", "c4"], ["c4", "c3"])
    assert isinstance(found["c3"].error, ClusterUnknown)
    assert isinstance(found["c4"].error, TimeoutError)
    assert found["c5"].unwrap() == "C5"
    with pytest.raises(ClusterUnknown):
        found["c3"].unwrap()
    assert current_cluster.get() is None


async def test_no_more_than_the_limit_run_at_once_and_duplicates_run_once() -> None:
    running, most = 0, 0

    async def ask(_: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    assert len([one async for one in fanout(NAMES + NAMES, ask, limit=3)]) == len(NAMES)
    assert most == 3


async def test_whoever_stops_listening_cancels_the_rest() -> None:
    begun, cancelled = [], []

    async def ask(cluster: str) -> None:
        begun.append(cluster)
        if cluster == "c0":
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(cluster)
            raise

    results = fanout(NAMES, ask, limit=4)
    assert (await anext(results)).cluster == "c0"
    await results.aclose()
    assert sorted(cancelled) == sorted(one for one in begun if one != "c0")
    assert len(begun) == 4


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_that_lets_nobody_through_is_refused(limit: int) -> None:
    async def ask(_: str) -> None: ...

    with pytest.raises(ValueError, match="limit"):
        await anext(fanout(NAMES, ask, limit=limit))


def test_blocking_functions_run_in_threads_and_a_hanging_one_gives_its_place_up() -> None:
    hanging = threading.Event()

    def ask(cluster: str) -> str:
        assert current_cluster.get() == cluster
        if cluster == "c0":
            hanging.wait(30)
        if cluster == "c3":
            raise status_error(404, UNKNOWN)
        return cluster

    found = {one.cluster: one for one in fanout_threads(NAMES, ask, limit=1, timeout=0.2)}
    hanging.set()
    assert set(found) == set(NAMES)
    assert isinstance(found["c0"].error, TimeoutError)
    assert isinstance(found["c3"].error, ClusterUnknown)
    assert found["c19"].unwrap() == "c19"
