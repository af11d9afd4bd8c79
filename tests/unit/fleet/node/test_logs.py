"""Logs of containers: bounded, kept in order, filtered and followed."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from muster.apiserver.nodes import LogOptions
from muster.fleet.node.containerlog import LONGEST_LINE, ContainerLog, last_lines, read_log
from tests.support.fake_clock import FakeClock, settle


async def text(directory: Path, clock: FakeClock, **options: object) -> str:
    asked = LogOptions("c", **options)  # type: ignore[arg-type]
    return b"".join([piece async for piece in read_log(directory, 0, asked, clock.now())]).decode()


def size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


async def test_lines_are_kept_in_order_whatever_pieces_they_come_in(tmp_path: Path) -> None:
    clock = FakeClock()
    log = ContainerLog(tmp_path, 0, clock)
    log.write("stdout", "one\ntw")
    log.write("stderr", "beside\n")
    log.write("stdout", "o\n\nlast")
    log.close()
    assert await text(tmp_path, clock) == "one\nbeside\ntwo\n\nlast\n"
    log.write("stdout", "too late\n")
    assert "too late" not in await text(tmp_path, clock)


async def test_a_line_too_long_for_the_format_comes_back_whole(tmp_path: Path) -> None:
    clock = FakeClock()
    log = ContainerLog(tmp_path, 0, clock)
    long = "x" * (LONGEST_LINE * 2 + 5)
    log.write("stdout", f"{long}\nshort\n")
    log.close()
    assert await text(tmp_path, clock) == f"{long}\nshort\n"
    assert b" P " in (tmp_path / "0.log").read_bytes()


async def test_a_log_is_filtered_by_time_and_number(tmp_path: Path) -> None:
    clock = FakeClock()
    log = ContainerLog(tmp_path, 0, clock)
    for number in range(5):
        log.write("stdout", f"line {number}\n")
        await clock.advance(10)
    assert await text(tmp_path, clock, tail_lines=2) == "line 3\nline 4\n"
    assert await text(tmp_path, clock, tail_lines=0) == ""
    assert await text(tmp_path, clock, since_seconds=25) == "line 3\nline 4\n"
    assert await text(tmp_path, clock, since_time=clock.now() - timedelta(seconds=15)) == "line 4\n"
    assert (await text(tmp_path, clock, tail_lines=1, timestamps=True)).startswith("2026-01-01T00:00:40.000000Z line 4")
    assert last_lines(tmp_path, 0, lines=1) == "line 4\n"


async def test_a_log_that_grows_without_end_keeps_its_last_lines(tmp_path: Path) -> None:
    clock = FakeClock()
    log = ContainerLog(tmp_path, 0, clock, limit=2000)
    for number in range(500):
        log.write("stdout", f"line {number}\n")
    assert size(tmp_path) <= 4000
    lines = (await text(tmp_path, clock)).splitlines()
    assert lines == [f"line {number}" for number in range(500 - len(lines), 500)]
    assert len(lines) > 20


async def test_only_the_attempt_before_is_kept(tmp_path: Path) -> None:
    clock = FakeClock()
    for attempt in range(4):
        ContainerLog(tmp_path, attempt, clock).close()
    assert sorted(os.listdir(tmp_path)) == ["2.log", "3.log"]


async def test_a_follower_sees_every_line_once_over_rotations_until_the_end(tmp_path: Path) -> None:
    clock = FakeClock()
    log = ContainerLog(tmp_path, 0, clock, limit=3000)
    log.write("stdout", "line 0\n")
    got: list[bytes] = []
    first = asyncio.Event()

    async def follow() -> None:
        async for piece in read_log(tmp_path, 0, LogOptions("c", follow=True), clock.now(), log):
            got.append(piece)
            first.set()

    reader = asyncio.create_task(follow())
    await first.wait()
    for number in range(1, 300):
        log.write("stdout", f"line {number}\n")
        if number % 20 == 0:
            await settle(3)
    log.close()
    await asyncio.wait_for(reader, 30)
    assert b"".join(got).decode().splitlines() == [f"line {number}" for number in range(300)]
