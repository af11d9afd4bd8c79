"""The page about placements is right: its commands are run as printed, on a hub with three clusters."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from muster.runtime.client.builtin import NAMESPACES
from tests.e2e.placement.conftest import Corner
from tests.support.choosing import BINDINGS, CLUSTERS, PLACEMENTS, SETS
from tests.support.kubectl import executable
from tests.support.peers import ROOT

PAGE = ROOT / "docs/placement.md"


def fences() -> list[tuple[str, str]]:
    """All blocks, with what they say they are."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


async def run(script: str, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-euc", script, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{script}\n{out.decode()}"
    return out.decode()


async def test_what_the_page_says_to_type_works(corner: Corner, tmp_path: Path) -> None:
    kubectl = executable()
    assert kubectl is not None
    environment = {
        "PATH": f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(corner.hub.cluster.kubeconfig),
    }
    clusters = {"cluster1": "east", "cluster2": "east", "cluster3": "west"}
    await corner.cluster_set("fleet")
    for name, region in clusters.items():
        await corner.cluster(name, of="fleet", region=region)
    try:
        for (kind, script), (mark, told) in itertools.pairwise([*fences(), ("end", "")]):
            if kind == "sh":
                said = await run(script, environment)
                assert (told if mark == "" else "") in said, f"{script}\n{said}"
    finally:
        for name in clusters:
            await corner.admin.delete(CLUSTERS, name)
        await corner.admin.delete_collection(BINDINGS, "shop")
        await corner.admin.delete(SETS, "fleet")
        await corner.admin.delete(NAMESPACES, "shop")


@pytest.mark.parametrize("text", [text for kind, text in fences() if kind == "yaml"], ids=lambda text: text.split("\n")[2])
async def test_the_objects_that_the_page_shows_are_taken_by_the_hub_with_all_their_fields(corner: Corner, text: str) -> None:
    body = yaml.safe_load(text)
    body["metadata"]["namespace"] = corner.ns
    await corner.admin.raw("POST", PLACEMENTS.path(corner.ns), {"dryRun": "All", "fieldValidation": "Strict"}, body)


def test_every_block_of_the_page_is_run_printed_or_an_object() -> None:
    assert {kind for kind, _ in fences()} == {"sh", "", "yaml"}
    printed = [(before, kind) for (before, _), (kind, _) in itertools.pairwise([("", ""), *fences()]) if kind == ""]
    assert {before for before, _ in printed} == {"sh"}, "what is printed follows what prints it"
