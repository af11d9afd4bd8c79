"""Programs that share a process keep logs of their own."""

import asyncio

import pytest

from muster.machinery.logs import diverted, get_logger

log = get_logger("test")


async def test_lines_of_a_task_and_of_those_it_starts_go_to_its_own_sink(capsys: pytest.CaptureFixture[str]) -> None:
    written: dict[str, list[str]] = {"a": [], "b": []}

    async def child(name: str) -> None:
        log.info("from a child", of=name)

    async def program(name: str) -> None:
        with diverted(written[name].append):
            log.warning("started", who=name)
            await asyncio.create_task(child(name))

    await asyncio.gather(program("a"), program("b"))
    for name, lines in written.items():
        assert [("who=" in line, line.endswith(f"={name}\n"), line[-1]) for line in lines] == [
            (True, True, "\n"),
            (False, True, "\n"),
        ]
    log.info("outside")
    assert capsys.readouterr().err.count("outside") == 1
