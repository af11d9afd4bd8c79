"""`site`: a managed cluster with a policy controller on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.policy_site import PolicySite, policy_site


@pytest.fixture
async def site() -> AsyncIterator[PolicySite]:
    async with policy_site() as found:
        yield found
