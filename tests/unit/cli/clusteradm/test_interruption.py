"""Ctrl-C ends a command with 130, and it says what it waited for and what it has written by then."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from muster.runtime.client.builtin import NAMESPACES
from tests.unit.cli.clusteradm.conftest import Fleet
from tests.unit.cli.clusteradm.test_works import write

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}


async def interrupted(fleet: Fleet, *words: str) -> tuple[int | None, str]:
    """Once the command waits for something."""
    command = [str(Path(sys.executable).parent / "clusteradm"), "--kubeconfig", str(fleet.kubeconfig), "--context", "hub", *words]
    running = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    assert running.stderr is not None
    seen = ""
    while "waiting: " not in seen:
        line = (await asyncio.wait_for(running.stderr.readline(), 30)).decode()
        assert line, seen
        seen += line
    running.send_signal(signal.SIGINT)
    rest = (await asyncio.wait_for(running.stderr.read(), 30)).decode()
    return await running.wait(), rest


async def test_after_a_write_it_is_said_that_nothing_is_undone(fleet: Fleet, tmp_path: Path) -> None:
    await fleet.cluster("c1")
    await fleet.admin().create(NAMESPACES, {"metadata": {"name": "c1"}})
    file = write(tmp_path / "c.json", CONFIG_MAP)
    code, said = await interrupted(fleet, "create", "work", "web", "-f", file, "--clusters", "c1", "--wait")
    assert code == 130
    assert "interrupted: while waiting for work web; 1 write was made: create" in said
    assert "the same command goes on from there" in said
    assert "Traceback" not in said


async def test_before_any_write_it_is_said_that_there_was_none(fleet: Fleet) -> None:
    code, said = await interrupted(fleet, "accept", "--clusters", "unheard-of", "--wait")
    assert (code, said) == (130, "interrupted: while waiting for managed cluster unheard-of; nothing was written\n")
