"""Talks to the placement oracle built by `make -C peers/placement`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

PEER = Path(__file__).parents[3] / "peers" / "placement"
Answer = dict[str, Any]


def binary() -> Path:
    found = subprocess.run(["make", "-s", "-C", str(PEER), "print-bin"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def play(worlds: Iterable[list[dict[str, Any]]], timeout: float = 600) -> list[list[dict[str, Answer]]]:
    """What upstream decides in each world: by step and placement."""
    lines = b"\n".join(orjson.dumps(steps) for steps in worlds)
    done = subprocess.run([str(binary())], input=lines, capture_output=True, check=True, timeout=timeout)
    return [orjson.loads(line) for line in done.stdout.splitlines()]
