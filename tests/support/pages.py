"""Pages of the documentation whose commands are run as printed."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from pathlib import Path

from tests.support.kubectl import executable
from tests.support.peers import ROOT


class Page:
    """Its blocks are commands (`sh`), what the commands before them print (unmarked), and objects (`yaml`)."""

    def __init__(self, path: str) -> None:
        found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)
        self.blocks: list[tuple[str, str]] = found
        """With what they say they are."""

    @property
    def objects(self) -> list[str]:
        return [text for kind, text in self.blocks if kind == "yaml"]

    @property
    def examples(self) -> list[tuple[str, str]]:
        """Commands, and what the page says that they print, if it does."""
        pairs = itertools.pairwise([*self.blocks, ("end", "")])
        return [(script, told if mark == "" else "") for (kind, script), (mark, told) in pairs if kind == "sh"]

    async def follow(self, kubeconfig: Path, home: Path) -> None:
        """Type all of it, and compare."""
        kubectl = executable()
        assert kubectl is not None
        path = f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        for script, told in self.examples:
            said = await _run(script, {"PATH": path, "HOME": str(home), "KUBECONFIG": str(kubeconfig)})
            assert told in said, f"{script}\n{said}"

    def check_blocks(self) -> None:
        assert {kind for kind, _ in self.blocks} == {"sh", "", "yaml"}
        printed = [before for (before, _), (kind, _) in itertools.pairwise([("", ""), *self.blocks]) if kind == ""]
        assert set(printed) == {"sh"}, "what is printed follows what prints it"


def documented_fields(what: str) -> set[str]:
    """Of the page about output for programs: which fields the JSON of a command has."""
    text = (ROOT / "docs/output.md").read_text()
    (cell,) = re.findall(rf"^\| `{re.escape(what)}` \| (.*?) \|", text, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", cell))


async def _run(script: str, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-euc", script, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{script}\n{out.decode()}"
    return out.decode()
