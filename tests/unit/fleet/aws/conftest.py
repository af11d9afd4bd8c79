"""A local AWS with two accounts, and their administrators; and a hub and a managed cluster on one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.fleet.aws import LocalAws
from tests.support.local_aws import Botocore, local_aws
from tests.unit.fleet.aws.registration_stage import HUB, MANAGED, Stage, open_stage

__all__ = ["HUB", "MANAGED"]


@pytest.fixture
async def aws(tmp_path: Path) -> AsyncIterator[LocalAws]:
    async with local_aws(tmp_path / "aws") as running:
        yield running


@pytest.fixture
async def admin(aws: LocalAws) -> Botocore:
    """Of the hub's account."""
    return Botocore(aws, await aws.administrator(HUB))


@pytest.fixture
async def other(aws: LocalAws) -> Botocore:
    """Of the managed clusters' account."""
    return Botocore(aws, await aws.administrator(MANAGED))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(tmp_path) as made:
        yield made
