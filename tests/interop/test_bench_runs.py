"""The benchmark program runs to its end on both servers. Its figures are nobody's business here: CI machines are busy."""

import subprocess
import sys

import pytest

from tests.support import peers


@pytest.mark.timeout(180)
def test_the_short_benchmark_measures_both_servers_and_leaves_nothing_running() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "apiserver", "--short"],
        cwd=peers.ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split("  ")[0].strip() for line in done.stdout.splitlines()}
    expected = {"time to ready", "memory idle", "create, 16 clients", "apply, 1 client", "20 logical clusters created"}
    assert expected <= rows
    assert _processes_with("muster-bench-") == []


def _processes_with(text: str) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if text in line]
