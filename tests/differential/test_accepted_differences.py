"""The list of accepted differences in docs/embedded.md and the cases that refer to it must agree."""

import re
from collections import Counter

from tests.differential import golden
from tests.differential.comparing import kept_steps
from tests.support.peers import ROOT


def documented() -> set[str]:
    section = (ROOT / "docs/embedded.md").read_text().partition("## Accepted differences")[2]
    return set(re.findall(r"^### ([a-z0-9-]+)$", section, re.MULTILINE))


def referenced() -> set[str]:
    steps = (step for cases in golden.groups().values() for case in cases for step in kept_steps(case.steps))
    return {name for step in steps for name in step.differs}


def test_every_accepted_difference_is_documented() -> None:
    assert referenced() - documented() == set()


def test_every_documented_difference_is_still_needed() -> None:
    assert documented() - referenced() == set()


def test_every_case_has_a_namespace_of_its_own() -> None:
    slugs = Counter(case.slug for cases in golden.groups().values() for case in cases)
    assert [slug for slug, count in slugs.items() if count > 1] == []
