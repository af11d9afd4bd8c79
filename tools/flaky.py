"""Runs a suite against real peers; what failed runs once more, alone, and what then passes is named as flaky.

    python -m tools.flaky -n 3 --dist loadfile tests/e2e

Real servers and controllers act when they please, so one test in a thousand can meet a moment that it did not expect. A test that
fails twice, the second time with the machine to itself, is red. One that passes then is green here, and its name is printed so that
somebody looks for the cause. Many failures at once are no matter of luck, and are not run again. Arguments are pytest's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

RERUN_LIMIT = 10
"""Tests that fail at once for one of them to count as unlucky."""


def failed(cache: Path) -> list[str]:
    """The tests that pytest recorded as failed in its cache."""
    record = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(record.read_text())) if record.exists() else []


def run(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as directory:
        suite = [*arguments, "-o", f"cache_dir={directory}"]
        first = _pytest(suite)
        names = failed(Path(directory))
        if first != pytest.ExitCode.TESTS_FAILED or not names:
            return first
        if len(names) > RERUN_LIMIT:
            print(f"{len(names)} tests failed, more than {RERUN_LIMIT}: none is run again", flush=True)
            return first
        print(f"run again, alone: {', '.join(names)}", flush=True)
        second = _pytest([*suite, "-n", "0", "--last-failed", "--last-failed-no-failures=none"])
        again = failed(Path(directory))
    for name in names:
        print(f"{'failed twice' if name in again else 'flaky'}: {name}", flush=True)
    return second


def _pytest(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
