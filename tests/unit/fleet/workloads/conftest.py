"""A stage whose pods run at once, and builders for what the controllers look at."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stage import Stage, open_stage
from tests.unit.fleet.node.conftest import PROGRAMS


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(PROGRAMS, tmp_path / "node") as opened:
        yield opened
