"""Fires generated requests at a server and judges what comes back.

Every request must be answered, or its connection closed where it was no HTTP; no answer may be the server's own failure, none may
take longer than `SLOW` seconds, and the log must stay free of failures. What broke a rule is kept with the request that did it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.requests import Generator, Shot

SLOW = 8.0
"""Longer than the three seconds a read waits for a revision, shorter than anyone's patience."""
CONNECTIONS = 12
MOST_FAILURES = 100


@dataclass
class Verdict:
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    slowest_request: str = ""

    @property
    def sent(self) -> int:
        return sum(self.statuses.values()) + self.unanswered

    def summary(self) -> str:
        statuses = ", ".join(f"{code}: {count}" for code, count in sorted(self.statuses.items()))
        answers = f"{self.sent} requests ({statuses}; {self.unanswered} not HTTP)"
        return f"{answers}, slowest {self.slowest:.2f} s, {len(self.failures)} failures"


OWN_FAILURES = (b"the server failed to handle the request", b"internal server error")


def is_fault(status: int, body: bytes) -> bool:
    """Whether an answer is the server's own failure. Some 5xx are not: where the real server words a client's mistake as one (a
    watch from something that is no revision, an impersonated group without a user), so do we, on purpose."""
    return status in (502, 503) or (status >= 500 and any(mark in body for mark in OWN_FAILURES))


class Gun:
    """One kept-alive connection, opened again whenever the server closes it."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def fire(self, shot: Shot) -> tuple[int, bytes]:
        """(status, body); status 0 where the connection was closed without an answer."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=1 << 24)
        assert self._reader is not None
        try:
            self._writer.write(shot.wire())
            if shot.raw and self._writer.can_write_eof():
                self._writer.write_eof()
            status, body, reusable = await asyncio.wait_for(_answer(self._reader, shot), 1.0 if shot.raw else SLOW)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self.drop()
            return 0, b""
        except TimeoutError:
            self.drop()
            if shot.raw:  # An unfinished request: the server rightly waits for its rest.
                return 0, b""
            raise
        if not reusable or shot.raw:
            self.drop()
        return status, body

    def drop(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = self._reader = None


async def _answer(reader: asyncio.StreamReader, shot: Shot) -> tuple[int, bytes, bool]:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        if status != 100:
            break
    lowered = head.lower()
    if shot.is_watch and b"transfer-encoding: chunked" in lowered:
        return status, b"", False
    if shot.method == "HEAD" or status in (101, 204, 304):
        return status, b"", status != 101 and b"connection: close" not in lowered
    if b"transfer-encoding: chunked" in lowered:
        return status, await reader.read(1 << 16), False
    length = int(lowered.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]) if b"content-length:" in lowered else 0
    body = await reader.readexactly(length)
    return status, body, b"connection: close" not in lowered


async def volley(generator: Generator, count: int, host: str, port: int, tls: ssl.SSLContext, verdict: Verdict) -> None:
    """Send `count` requests over a few connections at once, adding to `verdict`."""
    left = count

    async def shoot() -> None:
        nonlocal left
        gun = Gun(host, port, tls)
        while left > 0 and len(verdict.failures) < MOST_FAILURES:
            left -= 1
            shot = generator.shot()
            began = time.monotonic()
            try:
                status, body = await gun.fire(shot)
            except (TimeoutError, OSError, ValueError) as error:
                gun.drop()
                verdict.failures.append(f"{type(error).__name__}: {error}\n{shot.describe()}")
                continue
            took = time.monotonic() - began
            if took > verdict.slowest and not shot.raw:
                verdict.slowest, verdict.slowest_request = took, shot.describe()
            if status == 0:
                verdict.unanswered += 1
                if not shot.raw:
                    verdict.failures.append(f"no answer\n{shot.describe()}")
                continue
            verdict.statuses[status] += 1
            if is_fault(status, body):
                verdict.failures.append(f"{status} {body[:500]!r}\n{shot.describe()}")
        gun.drop()

    await asyncio.gather(*(shoot() for _ in range(CONNECTIONS)))
