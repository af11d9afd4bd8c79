"""Runs the Go programs `transport-load` and `transport-broker`, and whatever is driven as the latter is."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import peers
from tests.support.pki import Authority

PREFIX = "cluster"
TIMEOUT = "10m"


def cluster_name(number: int) -> str:
    return f"{PREFIX}{number:05d}"


@dataclass(frozen=True)
class Endpoint:
    """A server as the load sees it; its certificate is from the CA that clients' certificates are made from too."""

    port: int
    authority: Authority

    def flags(self) -> list[str]:
        pair = self.authority.pair
        return [f"--server=127.0.0.1:{self.port}", f"--ca={pair.cert}", f"--client-ca={pair.cert}", f"--client-ca-key={pair.key}"]


class Lines:
    """A process that is spoken to in JSON lines."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "piped"
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended: {self._log.read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise RuntimeError(f"{self._process.args!r}: {found['error']}")
        return found

    def until(self, event: str) -> dict[str, Any]:
        while (found := self.read()).get("event") != event:
            pass
        return found

    def write(self, line: str) -> None:
        assert self._process.stdin is not None, "piped"
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def ask(self, **command: Any) -> Any:
        self.write(json.dumps(command))
        return self.read()["answer"]

    def close(self) -> None:
        assert self._process.stdin is not None, "piped"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def load(endpoint: Endpoint | None, mode: str, log: Path, **flags: object) -> Iterator[Lines]:
    """`endpoint` is None for a load on the API server alone."""
    where = [] if endpoint is None else endpoint.flags()
    command: list[str | Path] = [peers.need("transport-load"), mode, *where, f"--timeout={TIMEOUT}"]
    lines = Lines([*command, *(f"--{name.replace('_', '-')}={value}" for name, value in flags.items())], log)
    try:
        yield lines
    finally:
        lines.close()


def measure(endpoint: Endpoint, mode: str, log: Path, **flags: object) -> dict[str, Any]:
    """The result of a load that needs nobody beside it."""
    with load(endpoint, mode, log, **flags) as lines:
        while "event" in (found := lines.read()):
            pass
        return found
