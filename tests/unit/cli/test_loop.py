"""What the loop of a command says of failures that nobody waits for."""

from __future__ import annotations

import asyncio
import gc

import pytest

from muster.cli.loop import run_loop


async def fail_unheard(error: Exception) -> None:
    asyncio.get_running_loop().create_future().set_exception(error)
    gc.collect()
    await asyncio.sleep(0)


def said_of(error: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    run_loop(fail_unheard(error))
    return capsys.readouterr().err


def test_a_connection_that_was_given_up_may_fail_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert said_of(ConnectionResetError(), capsys) == ""


async def write_to_closed(error: Exception | None = None) -> None:
    """As TLS of uvloop does, which then tells the loop what it got; or `error` instead."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
    transport.abort()
    while error is None:
        await asyncio.sleep(0)
        try:
            transport.write(b"late")
        except RuntimeError as closed:
            error = closed
    loop.call_exception_handler({"message": "Fatal error on SSL protocol", "exception": error, "transport": transport})
    server.close()


def test_a_connection_that_the_other_end_has_closed_may_fail_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    run_loop(write_to_closed())
    assert capsys.readouterr().err == ""


def test_a_fault_on_a_closed_connection_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    run_loop(write_to_closed(RuntimeError("a fault")))
    assert capsys.readouterr().err.endswith("RuntimeError: a fault\n")


def test_any_other_failure_that_nobody_heard_of_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_of(ValueError("a fault\x1b[2J"), capsys)
    assert "never retrieved" in said
    assert said.endswith("ValueError: a fault\\x1b[2J\n")


def test_what_the_work_gives_comes_out() -> None:
    async def answer() -> int:
        return 42

    assert run_loop(answer()) == 42
