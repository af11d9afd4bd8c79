"""The page about works is right: its commands are run as printed, against a hub and a managed cluster with an agent at work."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from muster.runtime.errors import NotFound
from muster.runtime.resource import NAMESPACES
from tests.support.kubectl import executable
from tests.support.peers import ROOT
from tests.support.planes import ControlPlane
from tests.support.working import Workplace

PAGE = ROOT / "docs/work.md"


AGENTS = "agents"
"""Where the page installs an agent by hand."""


def examples() -> list[tuple[str, str]]:
    """Commands, and what the page says that they print, if it does."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    pairs = itertools.pairwise([*fences, ("end", "")])
    return [(script, told if mark == "" else "") for (kind, script), (mark, told) in pairs if kind == "sh"]


@pytest.fixture
async def cluster1(plane: ControlPlane) -> AsyncIterator[Workplace]:
    """The page's names: `cluster1` on the hub, `shop` on the managed cluster."""
    place = Workplace(plane.cluster)
    place.name = "cluster1"
    await place.prepare()
    yield place
    for name in ("shop", AGENTS):
        with contextlib.suppress(NotFound):
            await place.admin.delete(NAMESPACES, name)
    await place.close()


def two_contexts(place: Workplace, directory: Path) -> Path:
    """A kubeconfig in which the hub and the managed cluster are called as on the page."""
    config = yaml.safe_load(place.cluster.kubeconfig.read_text())
    known = config["contexts"][0]["context"]
    config["contexts"] = [{"name": name, "context": known} for name in ("hub", "cluster1")]
    config["current-context"] = "hub"
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def run(script: str, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-euc", script, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{script}\n{out.decode()}"
    return out.decode()


async def test_what_the_page_says_to_type_works(cluster1: Workplace, tmp_path: Path) -> None:
    kubectl = executable()
    assert kubectl is not None
    environment = {
        "PATH": f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(two_contexts(cluster1, tmp_path)),
    }
    async with cluster1.agent():
        for script, told in examples():
            said = await run(script, environment)
            assert told in said, f"{script}\n{said}"
