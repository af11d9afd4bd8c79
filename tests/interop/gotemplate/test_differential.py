"""Go and ours agree on generated templates: 50,000 per run, always the same ones, so that a run says something about a change.

`GOTEMPLATE_FUZZ_SEED` draws others and `GOTEMPLATE_FUZZ_COUNT` more of them; a failure names the seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.gotemplate.wire import oracle_directory

COUNT = int(os.environ.get("GOTEMPLATE_FUZZ_COUNT", "50000"))
SEED = int(os.environ.get("GOTEMPLATE_FUZZ_SEED", "20261115"))
WORKERS = 2
ROOT = Path(__file__).parents[3]


def run_workers(seed: int, count: int) -> list[dict[str, Any]]:
    """The lines that the comparing processes printed."""
    oracle_directory()
    share = -(-count // WORKERS)
    command = [sys.executable, "-m", "tests.interop.gotemplate.compare"]
    workers = [
        subprocess.Popen([*command, str(seed + number), str(share)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for number in range(WORKERS)
    ]
    lines = []
    for worker in workers:
        output, _ = worker.communicate()
        assert worker.returncode == 0
        lines += [json.loads(line) for line in output.splitlines()]
    return lines


@pytest.mark.timeout(0)
def test_generated_templates_give_the_same_in_go_and_in_python() -> None:
    lines = run_workers(SEED, COUNT)
    compared = sum(line.get("compared", 0) for line in lines)
    found = [line for line in lines if "text" in line]
    assert compared >= COUNT
    shown = "\n".join(f"{line['text']!r}\n  Go:   {line['go']}\n  ours: {line['ours']}" for line in found[:10])
    assert not found, f"{len(found)} of {compared} differ with GOTEMPLATE_FUZZ_SEED={SEED}:\n{shown}"
