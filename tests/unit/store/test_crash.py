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


def run_and_kill(spec: str, directory: Path, seconds: float) -> list[str]:
    notes = directory / "notes"
    with notes.open("wb") as out:
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.store.crash_writer", spec, str(directory)],
            stdout=out,
            cwd=Path(__file__).parents[3],
        )
        try:
            deadline = time.monotonic() + 30
            while notes.stat().st_size == 0 and time.monotonic() < deadline:
                assert writer.poll() is None
                time.sleep(0.005)
            time.sleep(seconds)
        finally:
            writer.kill()
            writer.wait()
    text = notes.read_text()
    return text[: text.rfind("\n") + 1].splitlines()


async def test_a_killed_server_keeps_its_promises(durable: Medium, tmp_path: Path) -> None:
    spec = "sqlite" if durable.kind == "sqlite" else str(durable.place)
    ledger = Ledger()
    for _ in range(KILLS):
        seconds = random.uniform(0.0, 0.12)
        ledger.read(await asyncio.to_thread(run_and_kill, spec, tmp_path, seconds))
        store = await durable.open()
        assert store.revision >= ledger.newest
        watcher = Watcher(store, "c", PODS, max(ledger.last_shown, store.revision - 3_000))
        shown = [event.entry.revision for event in watcher.events]
        assert shown == [*range(store.revision - len(shown) + 1, store.revision + 1)], "the resumed watch has a gap"
        history = {event.entry.revision: event for event in Watcher(store, "c", PODS, max(0, store.revision - 3_000)).events}
        for revision, (key, op) in ledger.acknowledged.items():
            event = history.get(revision)
            if event is not None:
                assert (event.entry.key, event.deleted) == (key, op == "delete")
            else:
                assert revision <= store.revision - 3_000, "an acknowledged write was lost"
        for event in history.values():
            check(event.entry.value, event.entry.revision)
        for entry in store.list("c", PODS):
            check(entry.value, entry.revision)
        ledger.newest = store.revision
        await durable.close()
    assert len(ledger.acknowledged) > 10 * KILLS
