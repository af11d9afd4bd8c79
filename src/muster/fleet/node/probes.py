"""Probes of a container: HTTP and TCP checks of the pod's own address, and the loops that repeat them.

A check opens one connection and reads one status line; certificates are not verified, as by kubelets. Exec probes do not exist here
and count as passed; gRPC probes only open the port.

Before its first success a check is repeated fast, with pauses that double up to its period: programs start within milliseconds
here, and waiting ten seconds for the second check would be most of a rollout. These early failures only count as time: a startup
probe fails after its period times its threshold.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any
from urllib.parse import quote

from muster.fleet.node.podspec import HttpCheck, Port, Probe
from muster.http.happy_eyeballs import dial
from muster.http.upstream import FORBIDDEN_HEADER_CHARS
from muster.machinery.backoff import Backoff
from muster.machinery.clock import Clock, sleep

FIRST_PAUSE = 0.1
_IN_PATH = "/?&=%:@!$'()*+,;~-._"


@cache
def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def port_number(port: int | str, ports: Sequence[Port]) -> int | None:
    if isinstance(port, int):
        return port
    return next((each.container_port for each in ports if each.name == port), int(port) if port.isdigit() else None)


async def check(probe: Probe, ip: str, ports: Sequence[Port]) -> str | None:
    """What is wrong, or None."""
    try:
        async with asyncio.timeout(probe.timeout_seconds):
            if probe.http_get is not None:
                return await _http(probe.http_get, ip, ports)
            if probe.tcp_socket is not None:
                return await _tcp(probe.tcp_socket.host or ip, port_number(probe.tcp_socket.port, ports))
            if probe.grpc is not None:
                return await _tcp(ip, probe.grpc.port)
    except TimeoutError:
        return f"no answer within {probe.timeout_seconds} s"
    except (OSError, ValueError) as problem:
        message = problem.strerror if isinstance(problem, OSError) else ""
        return message or str(problem) or type(problem).__name__
    return None


async def _tcp(host: str, port: int | None) -> str | None:
    if port is None:
        return "the port it names does not exist"
    (await dial(host, port)).close()
    return None


def _question(target: HttpCheck, ip: str, port: int) -> bytes:
    """The HTTP request. Raises ValueError if it would contain more than one."""
    given = {header.name.lower(): f"{header.name}: {header.value}" for header in target.http_headers}
    fields = {"host": f"Host: {target.host or ip}:{port}", "user-agent": "User-Agent: kube-probe/muster"} | given
    path = target.path if target.path.startswith("/") else f"/{target.path}"
    lines = [f"GET {quote(path, safe=_IN_PATH)} HTTP/1.1", *fields.values(), "Accept: */*", "Connection: close"]
    if any(FORBIDDEN_HEADER_CHARS(line) for line in lines):
        raise ValueError("a header of the probe has a character that no header can have")
    return "\r\n".join([*lines, "", ""]).encode()


async def _http(target: HttpCheck, ip: str, ports: Sequence[Port]) -> str | None:
    port = port_number(target.port, ports)
    if port is None:
        return "the port it names does not exist"
    host, head = target.host or ip, _question(target, ip, port)
    secure: dict[str, Any] = {"ssl": _trusting(), "server_hostname": host} if target.scheme == "HTTPS" else {}
    reader, writer = await asyncio.open_connection(sock=await dial(host, port), **secure)
    try:
        writer.write(head)
        line = await reader.readline()
    finally:
        # Aborted, not closed: the response's body is not needed, and closing TLS takes another turn of the loop.
        writer.transport.abort()
    status_line = line.split(b" ", 2)
    code = int(status_line[1]) if len(status_line) > 1 and status_line[1].isdigit() else 0
    if 200 <= code < 400:
        return None
    return f"HTTP probe failed with statuscode: {code}" if code else "the answer is not HTTP"


Report = Callable[[bool, str], None]
"""Called whenever a threshold is reached: passed or failed, and the problem."""


class ProbeLoop:
    """Repeats one check until cancelled.

    With `ends`, one success is enough (a startup probe); `run` then returns whether it came in time.
    """

    def __init__(
        self, probe: Probe, ip: str, ports: Sequence[Port], report: Report, clock: Clock, *, eager: bool, ends: bool = False
    ) -> None:
        self._probe = probe
        self._check = partial(check, probe, ip, ports)
        self._report = report
        self._clock = clock
        self._eager = eager
        self._ends = ends

    async def run(self) -> bool:
        await sleep(self._clock, self._probe.initial_delay_seconds)
        if self._eager and not await self._until_first():
            return False
        if not self._ends:
            await self._steady()
        return True

    async def _until_first(self) -> bool:
        """Check fast until the first success; False if a startup probe has run out of time."""
        began, reported = self._clock.monotonic(), False
        backoff = Backoff(FIRST_PAUSE, self._probe.period_seconds, jitter=0.0)
        startup_timeout = self._probe.period_seconds * self._probe.failure_threshold
        while True:
            problem = await self._check()
            if problem is None:
                self._report(True, "")
                return True
            if self._clock.monotonic() - began >= startup_timeout and not reported:
                reported = True
                self._report(False, problem)
                if self._ends:
                    return False
            await sleep(self._clock, backoff.next())

    async def _steady(self) -> None:
        passed = failed = 0
        while True:
            await sleep(self._clock, self._probe.period_seconds)
            problem = await self._check()
            passed, failed = (passed + 1, 0) if problem is None else (0, failed + 1)
            if passed == self._probe.success_threshold:
                self._report(True, "")
            elif failed and failed % self._probe.failure_threshold == 0:
                self._report(False, problem or "")
