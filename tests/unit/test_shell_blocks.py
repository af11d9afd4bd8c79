"""Every shell block of README and docs is run by a test as it is printed, or the page says in a comment before it why it is not.

Blocks marked `sh` are run, on the pages that the table names. Others are not: the comment `<!-- not run: … -->` gives the reason,
and mostly the test that does the same. A block without a mark that follows one marked `sh` is what that one prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUN_BY: Final[Mapping[str, str]] = {
    "README.md": "tests/e2e/test_readme_tour.py",
    "docs/addons.md": "tests/e2e/test_addons_page.py",
    "docs/aws.md": "tests/e2e/test_readme_tour.py",
    "docs/gateway.md": "tests/e2e/test_gateway_page.py",
    "docs/grpc.md": "tests/e2e/test_readme_tour.py",
    "docs/placement.md": "tests/e2e/placement/test_docs.py",
    "docs/policy.md": "tests/e2e/test_policy_page.py",
    "docs/production.md": "tests/e2e/test_readme_tour.py",
    "docs/quickstart.md": "tests/e2e/test_readme_tour.py",
    "docs/work.md": "tests/e2e/work/test_docs.py",
}
SHELL: Final = ("sh", "bash", "shell", "console", "shell-session")
PROGRAMS: Final = (
    *(
        "muster",
        "clusteradm",
        "config-policy-controller",
        "kubectl",
        "helm",
        "make",
        "git",
        "podman",
        "docker",
        "uv",
        "pip",
        "pipx",
    ),
    *("python", "python3", "curl", "export", "source", "sudo", "apt-get", "aws", "openssl", "cd", "go"),
)
"""What the first line of a block that names no language begins with, if it is for a shell."""
BLOCK: Final = re.compile(r"^(?:<!-- not run: (.*?) -->\n)?(?: *)```([\w-]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
MARK: Final = re.compile(r"^<!-- not run: .*? -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    reason: str
    """Why it is not run."""
    answers: bool = False
    """Whether it is what the block before it prints."""

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def is_shell(self) -> bool:
        if self.language in SHELL:
            return True
        if self.language not in ("", "text") or self.answers:
            return False
        words = self.first_line.split()
        return bool(words) and (words[0] == "$" or words[0].rpartition("/")[2] in PROGRAMS)


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    for reason, language, content in BLOCK.findall(text):
        found.append(Block(language, content, reason, bool(found) and not language and found[-1].language == "sh" and not reason))
    return found


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_shell_block_is_run_or_says_why_not(page: Path) -> None:
    found = [block for block in blocks(page.read_text()) if block.is_shell]
    neither = [one.first_line for one in found if not one.reason and not (one.language == "sh" and name_of(page) in RUN_BY)]
    assert neither == [], "mark them `sh` and have them run, or write `<!-- not run: why -->` before them"
    both = [one.first_line for one in found if one.reason and one.language == "sh" and name_of(page) in RUN_BY]
    assert both == [], "a test runs them"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_reason_stands_before_a_shell_block_and_names_tests_that_exist(page: Path) -> None:
    text = page.read_text()
    reasons = [block.reason for block in blocks(text) if block.is_shell and block.reason]
    assert len(reasons) == len(MARK.findall(text)), "a mark that belongs to no shell block"
    named = [path for reason in reasons for path in re.findall(r"\b(?:tests|docs)/[\w/.]*\w", reason)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", RUN_BY)
def test_the_test_that_runs_a_page_names_it_and_the_page_has_blocks_to_run(page: str) -> None:
    assert page in (ROOT / RUN_BY[page]).read_text()
    assert any(block.language == "sh" for block in blocks((ROOT / page).read_text()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```sh\nls\n```\n", [("sh", "", True)]),
        ("```\nmuster up\n```\n", [("", "", True)]),
        ("<!-- not run: slow -->\n```\n$ kubectl get pods\n```\n", [("", "slow", True)]),
        ("```sh\nmuster up\n```\n\n```\nmuster is up\n```\n", [("sh", "", True), ("", "", False)]),
        ("```yaml\nkind: Pod\n```\n", [("yaml", "", False)]),
        ("```text\nUsage: muster\n```\n", [("text", "", False)]),
    ],
)
def test_how_blocks_are_told_apart(text: str, expected: list[tuple[str, str, bool]]) -> None:
    assert [(one.language, one.reason, one.is_shell) for one in blocks(text)] == expected
