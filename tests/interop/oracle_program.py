"""Upstream's code behind a program that reads worlds as lines of JSON and answers in lines; one of `peers/` that knows how it is
built."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.support.peers import ROOT


@dataclass(frozen=True)
class Oracle:
    peer: str
    """Its directory in `peers/`."""

    @property
    def directory(self) -> Path:
        return ROOT / "peers" / self.peer

    def binary(self) -> Path:
        found = subprocess.run(["make", "-s", "-C", str(self.directory), "print-bin"], capture_output=True, text=True, check=True)
        return Path(found.stdout.strip())

    def play(self, worlds: Iterable[Any], timeout: float = 600) -> list[Any]:
        """The answer to each world."""
        lines = b"\n".join(orjson.dumps(world) for world in worlds)
        done = subprocess.run([str(self.binary())], input=lines, capture_output=True, check=True, timeout=timeout)
        return [orjson.loads(line) for line in done.stdout.splitlines()]
