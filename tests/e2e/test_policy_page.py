"""The page about policies is right: its commands are run as printed, on a local fleet of two clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_fleet import Fleet
from tests.support.pages import Page
from tests.support.sites import beside_kube

pytestmark = beside_kube
PAGE = Page("docs/policy.md")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "fleet")
    try:
        fleet("up", "--detach", "--clusters", "2", "--port", "0")
        yield fleet
    finally:
        fleet.end()


async def test_what_the_page_says_to_type_works(fleet: Fleet, tmp_path: Path) -> None:
    await PAGE.follow(fleet.directory / "kubeconfig", tmp_path)
