"""Several coroutines as one."""

from __future__ import annotations

import asyncio

import pytest

from muster.machinery.tasks import RunnableEnded, race, run_all


async def test_a_race_gives_the_result_of_the_first_and_the_others_have_ended() -> None:
    ended: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")
        return "slow"

    async def quick() -> str:
        await asyncio.sleep(0)
        return "quick"

    assert await race(slow(), quick()) == "quick"
    assert ended == ["slow"]


async def test_a_race_raises_what_the_first_raised() -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await race(asyncio.Event().wait(), fail())


async def test_of_several_that_are_to_last_the_one_that_ends_is_named_with_its_error() -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    async def last() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RunnableEnded, match="culprit ended: LookupError: nothing there") as end:
        await run_all({"other": last, "culprit": fail})
    assert (end.value.name, type(end.value.error)) == ("culprit", LookupError)
