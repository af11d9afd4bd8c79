"""Talks to the templates oracle built by `make -C peers/templates`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

PEER = Path(__file__).parents[3] / "peers" / "templates"
Answer = dict[str, Any]


def binary() -> Path:
    found = subprocess.run(["make", "-s", "-C", str(PEER), "print-bin"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def render(installations: Iterable[dict[str, Any]], timeout: float = 300) -> list[Answer]:
    """What upstream makes of each installation."""
    lines = b"\n".join(orjson.dumps(one) for one in installations)
    done = subprocess.run([str(binary())], input=lines, capture_output=True, check=True, timeout=timeout)
    return [orjson.loads(line) for line in done.stdout.splitlines()]
