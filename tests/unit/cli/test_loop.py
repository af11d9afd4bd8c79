"""What the loop of a command says of failures that nobody waits for."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from muster.cli.loop import run_loop


async def fail_unheard(error: Exception) -> None:
    asyncio.get_running_loop().create_future().set_exception(error)
    gc.collect()
    await asyncio.sleep(0)


def said_of(error: Exception, caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        run_loop(fail_unheard(error))
    return [record.getMessage() for record in caplog.records if record.name == "asyncio"]


def test_a_connection_that_was_given_up_may_fail_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    assert said_of(ConnectionResetError(), caplog) == []


def test_any_other_failure_that_nobody_heard_of_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert "never retrieved" in "".join(said_of(ValueError("a fault"), caplog))


def test_what_the_work_gives_comes_out() -> None:
    async def answer() -> int:
        return 42

    assert run_loop(answer()) == 42
