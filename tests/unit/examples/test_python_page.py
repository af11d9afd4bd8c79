"""docs/python.md: its programs are the ones in `examples/`, and what else it shows runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.peers import ROOT

PAGE = (ROOT / "docs/python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TESTS = [block for block in BLOCKS if "\nasync def test_" in block]
SCRIPTS = [block for block in BLOCKS if "\nassert " in block]
EXAMPLE = ROOT / "examples/work_on_a_fleet.py"


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_shows_the_example_whole_and_it_works() -> None:
    assert EXAMPLE.read_text() in BLOCKS
    assert run(str(EXAMPLE)).splitlines() == ["cluster1 {'from': 'hub'}", "cluster2 {'from': 'hub'}"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_the_page_asserts_is_true(script: str) -> None:
    run("-c", script)


@pytest.mark.parametrize("test", TESTS)
def test_the_test_that_it_shows_passes(test: str, tmp_path: Path) -> None:
    (tmp_path / "test_shown.py").write_text(test)
    assert "1 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))


def test_no_block_is_forgotten() -> None:
    assert (len(TESTS), len(SCRIPTS)) == (1, 2)
    assert len(BLOCKS) == 3 + len({"cluster_owners.py", "work_on_a_fleet.py", "the fixture of its test"})
