"""Stops random processes for a moment, again and again, while a suite runs: what a busy machine does now and then, all the time.

    python -m tools.pauses --seconds 900 --longest 2.5 kube-controller-manager &
    MUSTER_E2E=kube python -m pytest -n 3 --dist loadfile tests/e2e

Processes are meant by words of their command line. Tests that take for granted how soon somebody else does something fail under
this; those that wait for what they need do not. Every stopped process goes on when this ends, however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

STEP = 0.1
SHORTEST = 0.1
LIKELY = 0.06
"""How likely a process is to be stopped in a step."""


def meant(words: Sequence[str]) -> Iterator[int]:
    """Numbers of the processes whose command lines have one of the words; never this one."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(place.name) != os.getpid() and any(word in line for word in words):
            yield int(place.name)


def send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def pause(words: Sequence[str], seconds: float, longest: float, chance: random.Random) -> int:
    """How often somebody was stopped."""
    resting: dict[int, float] = {}
    count = 0
    ends = time.monotonic() + seconds
    try:
        while (now := time.monotonic()) < ends:
            for process in [one for one, until in resting.items() if until <= now]:
                send(process, signal.SIGCONT)
                del resting[process]
            for process in meant(words):
                if process not in resting and chance.random() < LIKELY:
                    resting[process] = now + chance.uniform(SHORTEST, longest)
                    send(process, signal.SIGSTOP)
                    count += 1
            time.sleep(STEP)
    finally:
        for process in resting:
            send(process, signal.SIGCONT)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="+", metavar="WORD", help="in the command lines of the processes to stop")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to go on")
    parser.add_argument("--longest", type=float, default=1.0, help="seconds that a process is stopped at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: exit(0))
    print(f"stopped somebody {pause(given.words, given.seconds, given.longest, random.Random(given.seed))} times")


if __name__ == "__main__":
    main()
