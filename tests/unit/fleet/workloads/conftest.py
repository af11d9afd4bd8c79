"""A stage whose pods run at once, and builders for what the controllers look at."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stage import Stage, open_stage
from tests.unit.fleet.node.conftest import PROGRAMS


@pytest.fixture(params=[False, True], ids=["embedded", "remote"])
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Twice: with controllers that read the server's store, and with such as know the server by a client only."""
    async with open_stage(PROGRAMS, tmp_path / "node", remote=request.param) as opened:
        yield opened
