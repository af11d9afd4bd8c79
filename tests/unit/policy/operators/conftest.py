"""`site`: a managed cluster with OLM; `bare_site`: one without."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.operator_site import OperatorSite, operator_site


@pytest.fixture
async def site() -> AsyncIterator[OperatorSite]:
    async with operator_site() as found:
        yield found


@pytest.fixture
async def bare_site() -> AsyncIterator[OperatorSite]:
    async with operator_site(olm=False) as found:
        yield found
