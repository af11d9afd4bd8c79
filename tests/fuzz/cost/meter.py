"""What a request costs a server: processor time of its process, and what another client has to wait meanwhile.

Time on the clock says little on a busy machine. So the cost of a request is the processor time that all threads of the server
spent until the answer was there, and a bystander's wait is the processor time the server spent on others between a small
request and its answer: a loop that is blocked for a second shows as a second there, a busy neighbour does not show at all.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from tests.fuzz.cost.case import Asked
from tests.fuzz.cost.processor import processor_seconds
from tests.support import peers
from tests.support.client import Client, Reply
from tests.support.planes import USERS, ControlPlane

http.client._MAXHEADERS = 1_000  # type: ignore[attr-defined]  # Warnings are headers, one each.


@dataclass(frozen=True)
class Sample:
    size: int
    seconds: float
    reply: Reply = field(repr=False)


def send(client: Client, asked: Asked, user: str | None = None) -> Reply:
    return client.request(
        asked.method,
        asked.path,
        asked.body or None,
        query=asked.query,
        headers=asked.headers,
        content_type=asked.media if asked.body else None,
        accept=asked.accept,
        user=user,
    )


def measure(client: Client, pid: int, asked: Asked, user: str | None = None) -> Sample:
    """Send it and see what that cost the server."""
    before = processor_seconds(pid)
    reply = send(client, asked, user)
    return Sample(len(asked.body), processor_seconds(pid) - before, reply)


@dataclass
class Waits:
    """How long a bystander's small requests took: on the clock, and in processor time of the server."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @staticmethod
    def p99(samples: list[float]) -> float:
        return sorted(samples)[int(len(samples) * 0.99)] if samples else 0.0


@contextmanager
def bystander(plane: ControlPlane, pid: int, waits: Waits | None = None) -> Iterator[Waits]:
    """Another client of the plane that asks for something small all the time."""
    waits = Waits() if waits is None else waits
    command = [sys.executable, "-m", "tests.fuzz.cost.bystander", plane.url, str(plane.ca), USERS["bob"].token, str(pid)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=peers.ROOT)
    assert child.stdout is not None
    child.stdout.readline()  # The first one pays for the connection.

    def listen(lines: IO[str]) -> None:
        for line in lines:
            if not line.endswith("\n"):  # It was ended in the middle of it.
                break
            clock, processor = line.split()
            waits.clock.append(float(clock))
            waits.processor.append(float(processor))

    listener = threading.Thread(target=listen, args=(child.stdout,))
    listener.start()
    try:
        yield waits
    finally:
        assert child.poll() is None, "the bystander was not served"
        child.terminate()
        child.wait()
        listener.join()
