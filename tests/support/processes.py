"""Child processes of a test: started with a log file, stopped by their own id, never left behind.

A server that dies while somebody waits for it is reported at once with the end of its log, so a broken flag costs
milliseconds and not the full timeout.
"""

import atexit
import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final


class ServerFailed(RuntimeError):
    """A server ended or did not become ready; the message carries the end of its log."""


PORTS: Final = range(11_000, 30_000)
"""Below those that the kernel takes for connections (`ip_local_port_range`): whoever dials in the moment between the choice of a
port and its use, or while a server is restarted, could get that very port, and would even reach himself there."""
WORKERS: Final = 10


def _own_ports() -> Iterator[int]:
    """One after the other from a part of them that no other worker of this run has; runs begin at different places."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    own = PORTS[number::WORKERS]
    start = random.SystemRandom().randrange(len(own))
    return itertools.cycle([*own[start:], *own[:start]])


_ports = _own_ports()


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that are free and stay so; none is given twice."""
    found: list[int] = []
    while len(found) < count:
        port = next(_ports)
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            found.append(port)
    return found


def tail(path: Path, lines: int = 40) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64 * 1024))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


def python_path(*places: Path) -> dict[str, str]:
    """An environment in which Python also looks there."""
    return {"PYTHONPATH": os.pathsep.join([*map(str, places), *filter(None, [os.environ.get("PYTHONPATH")])])}


def complaints(log: Path) -> list[str]:
    """What a process of ours logged as an error, or died of. Losing a race is none, however often on a busy machine."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if "level=error" in line and 'error="Conflict:' not in line]
    return errors + ["\n".join(lines[at : at + 40]) for at, line in enumerate(lines) if line.startswith("Traceback")]


class Server:
    """One server process. Its log is appended to, so a restart keeps what came before."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self.environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self.environment
            )
        atexit.register(self.stop, kill=True)

    def wait_until(self, ready: Callable[[], bool], timeout: float = 60, poll: float = 0.05) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise ServerFailed(f"{self.name} ended before it was ready\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name} was not ready after {timeout:g} s\n{tail(self.log)}")
            time.sleep(poll)

    def stop(self, *, kill: bool = False, timeout: float = 20) -> None:
        process, self._process = self._process, None
        atexit.unregister(self.stop)
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
