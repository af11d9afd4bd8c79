"""What is published: the wheel and the sdist, built from this tree as a release builds them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.peers import ROOT

TOOLS = Path(sys.executable).parent


@dataclass(frozen=True)
class Distributions:
    wheel: Path
    sdist: Path


def build(directory: Path, tree: Path = ROOT) -> Distributions:
    """Into `directory`, which the tree has nothing of afterwards."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = directory.glob("*.whl")
    (sdist,) = directory.glob("*.tar.gz")
    return Distributions(wheel, sdist)
