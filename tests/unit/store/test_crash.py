"""A server killed at any moment loses nothing it acknowledged or showed, shows nothing half, and never reuses a revision.

`MUSTER_KILLS` sets how many times the writer is killed (a few in the quick run, thousands before a release).
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.store.conftest import Medium
from tests.unit.store.crash_writer import check
from tests.unit.store.histories import PODS, Watcher

KILLS = int(os.environ.get("MUSTER_KILLS", "4"))


@dataclass
class Ledger:
    """What the outside world was told, over all lives of the server."""

    acknowledged: dict[int, tuple[str, str]] = field(default_factory=dict)
    newest: int = 1
    last_shown: int = 1

    def read(self, lines: list[str]) -> None:
        self.last_shown = 0
        for line in lines:
            word, number, *rest = line.split()
            revision = int(number)
            if word == "ack":
                assert revision not in self.acknowledged, "a revision was given twice"
                self.acknowledged[revision] = (rest[0], rest[1])
            elif word == "open":
                assert revision >= self.newest, "the counter went back"
            self.last_shown = max(self.last_shown, revision)
        self.newest = max(self.newest, self.last_shown)


def run_and_kill(spec: str, directory: Path) -> list[str]:
    """Let the writer write some thousand bytes of notes, a random moment more, and kill it."""
    notes = directory / "notes"
    with notes.open("wb") as out:
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.store.crash_writer", spec, str(directory)],
            stdout=out,
            cwd=Path(__file__).parents[3],
        )
        try:
            deadline = time.monotonic() + 60
            enough = random.randint(1_000, 8_000)
            while notes.stat().st_size < enough and time.monotonic() < deadline:
                assert writer.poll() is None
                time.sleep(0.002)
            time.sleep(random.uniform(0.0, 0.02))
        finally:
            writer.kill()
            writer.wait()
    text = notes.read_text()
    return text[: text.rfind("\n") + 1].splitlines()


@pytest.mark.timeout(120 + 10 * KILLS)
async def test_a_killed_server_keeps_its_promises(durable: Medium, tmp_path: Path) -> None:
    spec = "sqlite" if durable.kind == "sqlite" else str(durable.place)
    ledger = Ledger()
    for _ in range(KILLS):
        ledger.read(await asyncio.to_thread(run_and_kill, spec, tmp_path))
        store = await durable.open()
        assert store.revision >= ledger.newest
        resumed = [event.entry.revision for event in Watcher(store, "c", PODS, ledger.last_shown).events]
        assert resumed == [*range(ledger.last_shown + 1, store.revision + 1)], "the resumed watch has a gap"
        oldest = max(0, store.revision - 3_000)
        history = {event.entry.revision: event for event in Watcher(store, "c", PODS, oldest).events}
        for revision, (key, op) in ledger.acknowledged.items():
            event = history.get(revision)
            if event is not None:
                assert (event.entry.key, event.deleted) == (key, op == "delete")
            else:
                assert revision <= oldest, "an acknowledged write was lost"
        for event in history.values():
            check(event.entry.value, event.entry.revision)
        for entry in store.list("c", PODS):
            check(entry.value, entry.revision)
        ledger.newest = store.revision
        await durable.close()
    assert len(ledger.acknowledged) > 5 * KILLS
