"""Runs a suite; what failed runs once more, alone, and what then passes is named as flaky.

    python -m tools.flaky -n 3 --dist loadfile tests/e2e

Servers and controllers act when they please, so one test in ten thousand can meet a moment that it did not expect. A test that
fails twice, the second time with the machine to itself, is red. One that passes then is green here, and its name is printed so that
somebody looks for the cause. A test that did not come to run counts as one that failed. Failures in many files at once are no
matter of luck and are not run again, nor is anything if a file could not be read. Arguments are pytest's; the end is green only if
every test was seen to pass or to be skipped.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import outcomes

FILES_LIMIT = 10
"""Files with failures at once for them to count as unlucky. Tests of a file share their servers, so a file is one piece of luck."""
FAILURES_LIMIT = 10
"""Tests that fail again until the others need not be tried."""


def run(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as directory:
        code, first = _pytest(arguments, Path(directory, "first"))
        if first is None:
            return code or pytest.ExitCode.INTERNAL_ERROR
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or first.unread:
            return code
        names = sorted({*first.missed, *(name for name, end in first.ended.items() if end == outcomes.FAILED)})
        if not names:
            return code
        files = {name.partition("::")[0] for name in names}
        if len(files) > FILES_LIMIT:
            print(f"tests of {len(files)} files failed, more than {FILES_LIMIT}: none is run again", flush=True)
            return code or pytest.ExitCode.TESTS_FAILED
        print("run again, alone:", *names, sep="\n  ", flush=True)
        only = Path(directory, "only")
        only.write_text("\n".join(names))
        # In a worker of its own, so that one which ends its process leaves the others their turn.
        alone = ["-n", "1", "--dist", "load", f"--maxfail={FAILURES_LIMIT}", f"--only={only}"]
        code, second = _pytest([*arguments, *alone], Path(directory, "second"))
    ended = second.ended if second else {}
    for name in names:
        print(f"{_verdict(ended.get(name))}: {name}", flush=True)
    if any(ended.get(name) != outcomes.PASSED for name in names):
        return code or pytest.ExitCode.TESTS_FAILED
    return code


def _verdict(end: str | None) -> str:
    if end is None:
        return "failed, and did not come to run again"
    return {outcomes.PASSED: "flaky", outcomes.SKIPPED: "failed, then skipped"}.get(end, "failed twice")


def _pytest(arguments: Sequence[str], record: Path) -> tuple[int, outcomes.Record | None]:
    """Its exit code, and how the tests ended, if it came to its end."""
    command = [sys.executable, "-m", "pytest", "-p", "tools.outcomes", f"--outcomes={record}", *arguments]
    code = subprocess.run(command, check=False).returncode
    return code, outcomes.read(record)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
