"""Waits for the process of a fleet: signals it after a change of its configuration, and polls its status."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import click

from muster.cli.progress import ConsoleProgress
from muster.fleet.local.directory import FleetDirectory
from muster.fleet.local.status import FleetStatus, read_status

POLL_INTERVAL = 0.1


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether it became true within that time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL)
    return True


def follow(directory: FleetDirectory, pid: int, what: str, seconds: float, why: Callable[[FleetStatus], str]) -> None:
    """Signal the process to read its configuration, and wait until `why` returns no reason."""
    progress = ConsoleProgress()
    os.kill(pid, signal.SIGUSR1)
    reason = ""

    def reached() -> bool:
        nonlocal reason
        if directory.holder() != pid:
            raise click.ClickException("the fleet has ended: see its log (muster logs fleet)")
        found = read_status(directory)
        reason = why(found) if found is not None and found.pid == pid else "the fleet is starting"
        if reason:
            progress.waiting(what, reason)
        return not reason

    try:
        if not until(reached, seconds):
            raise click.ClickException(f"waited {seconds:g} s for {what}: {reason}; it goes on: see muster status, muster logs")
    finally:
        progress.done()
