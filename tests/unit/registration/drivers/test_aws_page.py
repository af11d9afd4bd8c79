"""What docs/aws.md says of messages and rights is what the programs say and ask for."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import muster
from muster.aws.policies import CREATOR_ENTRY_ACTIONS, CREATOR_ROLE_ACTIONS

SOURCE = Path(muster.__file__).parent
PAGE = (SOURCE.parents[1] / "docs" / "aws.md").read_text()
PROPOSED = {
    *("CreateRole", "DeleteRole", "GetRole", "UpdateAssumeRolePolicy", "PassRole"),
    *("PutRolePolicy", "GetRolePolicy", "ListRolePolicies", "DeleteRolePolicy"),
    *("AttachRolePolicy", "ListAttachedRolePolicies", "DetachRolePolicy"),
    *("CreatePolicy", "GetPolicy", "DeletePolicy"),
    *("CreatePolicyVersion", "GetPolicyVersion", "ListPolicyVersions", "DeletePolicyVersion"),
}
"""Of the enhancement proposal."""


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def messages() -> list[str]:
    """Of the table's first column, without where they are seen."""
    rows = re.findall(r"^\| (`.*?) \|", section("When it does not work"), re.MULTILINE)
    return sorted(text for row in rows for text in quoted(re.sub(r" \(.*\)$", "", row)))


@cache
def said() -> tuple[str, ...]:
    """All that the rooms that deal with AWS may say; what is filled in is left out."""
    texts = []
    for room in ("aws", "registration/drivers/awsirsa", "fleet/aws"):
        for file in sorted((SOURCE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                    texts.append(node.value)
    return tuple(texts)


def test_there_are_messages_to_look_for() -> None:
    assert len(messages()) > 15


@pytest.mark.parametrize("message", messages())
def test_a_message_of_the_page_is_one_that_is_said(message: str) -> None:
    assert any(message in text for text in said())


def test_which_actions_of_the_proposal_are_left_and_which_are_added() -> None:
    kept, dropped, *_ = section("Permissions of the roles").split("Nine are dropped:")
    dropped, added = dropped.split("Added are")
    added, entries = added.split("Access entries add")
    ours = {action.removeprefix("iam:") for action in CREATOR_ROLE_ACTIONS}
    in_table = set().union(*(quoted(row.split("|")[1]) for row in kept.splitlines() if row.startswith("| `")))
    assert in_table == ours & PROPOSED
    assert quoted(dropped) == PROPOSED - ours
    assert (len(PROPOSED), len(quoted(dropped))) == (19, 9)
    assert quoted(added) == (ours - PROPOSED) | {"eks:DescribeCluster"}
    listed = re.search(r"`eks:\{(.*)\}AccessEntry`", entries)
    assert listed is not None
    by_entry = {f"eks:{verb}AccessEntry" for verb in listed[1].split(",")} | {"eks:TagResource"}
    assert by_entry == set(CREATOR_ENTRY_ACTIONS)
