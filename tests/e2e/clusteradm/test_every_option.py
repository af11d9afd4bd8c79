"""No option of any command is without a test that claims to show what it does (`claims`)."""

from __future__ import annotations

from tests.e2e.clusteradm.claims import SPELLINGS, all_claims, used


def test_every_option_of_every_command_is_shown_by_a_test() -> None:
    known = {(path, option) for path, options in SPELLINGS.items() for option in options.values()}
    assert known - all_claims() == set()


def test_what_a_command_line_uses_is_seen_however_it_is_spelled() -> None:
    """Or no claim above would mean anything."""
    by_letter, by_name = ("get clusters -w -l a=b", "get clusters --watch --selector=a=b")
    assert used(by_letter.split()) == used(by_name.split()) == {("get clusters", "--watch"), ("get clusters", "--selector")}
    assert used(["get", "clusters", "name"]) == set()
    assert used(["get", "nonsense", "--watch"]) == set()
