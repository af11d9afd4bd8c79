"""The page about the gateway is right: its commands are run as printed, on a local fleet of two clusters."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import executable
from tests.support.local_fleet import Fleet
from tests.support.peers import ROOT
from tests.support.sites import beside_kube

pytestmark = beside_kube
PAGE = ROOT / "docs/gateway.md"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "fleet")
    try:
        fleet("up", "--detach", "--clusters", "2", "--port", "0")
        yield fleet
    finally:
        fleet.end()


def test_what_the_page_says_to_type_works(fleet: Fleet, tmp_path: Path) -> None:
    """The first command works at once: a fleet is ready when its gateway leads to all clusters."""
    kubectl = executable()
    assert kubectl is not None
    environment = {
        "PATH": f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(fleet.directory / "kubeconfig"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    blocks: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for (kind, script), (mark, told) in itertools.pairwise([*blocks, ("end", "")]):
        if kind != "sh":
            continue
        command = ["bash", "-euc", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
        said = f"{script}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, said
        assert (told.strip() if mark == "" else "") in done.stdout, said
    assert "eyJ" not in (tmp_path / "cluster1.kubeconfig").read_text(), "no token of the cluster is in it"
    assert {one["name"]: one["gateway"] for one in fleet.status()["clusters"]} == {"cluster1": True, "cluster2": True}
