"""Runs the Go load generator (peers/bench) and hands back what it measured.

The generator is Go because a Python one would be the slower side of every measurement; it is a process of its own per
measurement, so it leaves nothing behind.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import peers

TIMEOUT = 120


@dataclass(frozen=True)
class Target:
    """A server as the generator sees it."""

    url: str
    ca: Path
    token: str
    server_name: str = ""
    """Whom its certificate is for, if not the URL's host."""


def run(target: Target, command: str, **flags: object) -> dict[str, Any]:
    arguments = [str(peers.need("loadgen")), command, f"--url={target.url}", f"--ca={target.ca}", f"--token={target.token}"]
    if target.server_name:
        arguments.append(f"--server-name={target.server_name}")
    arguments += [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command} {flags} on {target.url}: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
