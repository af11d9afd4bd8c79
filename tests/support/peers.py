"""Finds the programs that `make -C peers` built: Go's, and those of the Python registry that have an environment of their own.

The Makefile alone knows where its cache is (the directory names are content hashes), so it is asked once. Nothing is
built from here: a test that needs a missing peer fails with the command that builds it.

Open Cluster Management's own programs may be others than the pinned ones, of a version that the module registry does not serve:
MUSTER_GO_OCM names a directory with programs that somebody has built from upstream's repository, under the names of its `cmd/`, and
`ocm-manifests`, which is `ocm/manifests` of our peers, built there. Then no pinned one is used, so that versions are not mixed.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OCM = "MUSTER_GO_OCM"
OCM_PROGRAMS = ("registration", "work", "placement", "addon", "registration-operator", "server", "ocm-manifests")


class PeerMissing(RuntimeError):
    """A peer has not been built."""


@functools.cache
def search_path() -> str:
    answer = subprocess.run(["make", "-s", "-C", str(ROOT / "peers"), "print-path"], capture_output=True, text=True, check=True)
    return answer.stdout.strip().splitlines()[-1]


def find(name: str) -> Path | None:
    found = shutil.which(name, path=_named(name) or search_path())
    return Path(found) if found else None


def need(name: str) -> Path:
    found = find(name)
    if found is None:
        named = _named(name)
        raise PeerMissing(f"{name} is not in {named}, which {OCM} names" if named else f"{name} is not built: run `make -C peers`")
    return found


@functools.cache
def python_program(group: str, program: str) -> Path:
    """One of the Python registry; `group` is its directory in peers/."""
    answer = subprocess.run(["make", "-s", "-C", str(ROOT / "peers" / group), "path"], capture_output=True, text=True, check=True)
    found = Path(answer.stdout.strip().splitlines()[-1]) / program
    if not found.exists():
        raise PeerMissing(f"{program} is not there: run `make -C peers/{group}`")
    return found


@functools.cache
def own_program(group: str, program: str = "bin") -> Path:
    """The program of a directory in peers/ that knows itself how it is built; `program` is one of several there."""
    command = ["make", "-s", "-C", str(ROOT / "peers" / group), f"print-{program}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found = Path(answer.stdout.strip().splitlines()[-1])
    if not found.exists():
        raise PeerMissing(f"{found.name} is not built: run `make -C peers/{group}`")
    return found


def is_built(group: str) -> bool:
    """Whether `own_program` gives one."""
    try:
        own_program(group)
    except PeerMissing:
        return False
    return True


def _named(program: str) -> str:
    """The directory in which somebody has upstream's programs of another version; empty where the pinned ones are meant."""
    return os.environ.get(OCM, "") if program in OCM_PROGRAMS else ""
