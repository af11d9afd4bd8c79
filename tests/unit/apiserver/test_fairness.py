"""A flood of one user leaves room for the others in every turn of the loop."""

import asyncio

import pytest

from muster.apiserver.errors import ApiError
from muster.apiserver.fairness import IMMEDIATE_STARTS, MAX_QUEUE_LENGTH, FairQueue


async def take_turn(queue: FairQueue, user: str, order: list[str]) -> None:
    if not queue.try_start(user):
        await queue.wait(user)
    order.append(user)


async def test_a_lone_user_is_never_held_up_for_long() -> None:
    queue, order = FairQueue(), list[str]()
    await asyncio.gather(*(take_turn(queue, "a", order) for _ in range(500)))
    assert order == ["a"] * 500
    assert queue.waiting == 0


async def test_a_latecomer_is_served_long_before_a_flood_ends() -> None:
    queue, order = FairQueue(), list[str]()
    flood = [asyncio.create_task(take_turn(queue, "flood", order)) for _ in range(1000)]
    await asyncio.sleep(0)
    late = asyncio.create_task(take_turn(queue, "late", order))
    await late
    assert order.index("late") < 100
    await asyncio.gather(*flood)


async def test_two_lines_advance_in_rotation() -> None:
    queue, order = FairQueue(), list[str]()
    users = ["a"] * 200 + ["b"] * 200
    await asyncio.gather(*(take_turn(queue, user, order) for user in users))
    second_half_of_b = [index for index, user in enumerate(order) if user == "b"][100]
    assert second_half_of_b < 250


async def test_a_line_that_is_too_long_is_refused_with_a_hint_to_retry() -> None:
    queue = FairQueue()
    waiting = []
    for _ in range(IMMEDIATE_STARTS + MAX_QUEUE_LENGTH):
        if not queue.try_start("a"):
            waiting.append(asyncio.create_task(queue.wait("a")))
    await asyncio.sleep(0)
    for _ in range(MAX_QUEUE_LENGTH):
        if not queue.try_start("a"):
            waiting.append(asyncio.create_task(queue.wait("a")))
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, ApiError)]
    assert refused
    assert all(error.code == 429 and error.retry_after for error in refused)
    assert queue.rejected == len(refused)


async def test_a_request_that_gave_up_does_not_hold_its_place() -> None:
    queue, order = FairQueue(), list[str]()
    for _ in range(IMMEDIATE_STARTS):
        assert queue.try_start("a")
    gone = asyncio.create_task(queue.wait("a"))
    stays = asyncio.create_task(take_turn(queue, "a", order))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert order == ["a"]
    with pytest.raises(asyncio.CancelledError):
        await gone
