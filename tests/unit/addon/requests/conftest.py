"""`hub`: an API server in this process with the controllers of addons' credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.addon_hub import AddonHub, addon_hub


@pytest.fixture
async def idle() -> AsyncIterator[AddonHub]:
    """Without controllers."""
    async with addon_hub() as hub:
        yield hub


@pytest.fixture
async def hub() -> AsyncIterator[AddonHub]:
    async with addon_hub() as hub, hub.running():
        yield hub
