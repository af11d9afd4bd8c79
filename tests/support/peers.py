"""Finds the Go programs that `make -C peers` built.

The Makefile alone knows where its cache is (the directory names are content hashes), so it is asked once. Nothing is
built from here: a test that needs a missing peer fails with the command that builds it.
"""

import functools
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class PeerMissing(RuntimeError):
    """A Go peer has not been built."""


@functools.cache
def search_path() -> str:
    answer = subprocess.run(["make", "-s", "-C", str(ROOT / "peers"), "print-path"], capture_output=True, text=True, check=True)
    return answer.stdout.strip().splitlines()[-1]


def find(name: str) -> Path | None:
    found = shutil.which(name, path=search_path())
    return Path(found) if found else None


def need(name: str) -> Path:
    found = find(name)
    if found is None:
        raise PeerMissing(f"{name} is not built: run `make -C peers`")
    return found
