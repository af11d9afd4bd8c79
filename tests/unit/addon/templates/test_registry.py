"""Which addons are made of templates, from the first ClusterManagementAddOn to the last ManagedClusterAddOn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.addon_hub import ADDONS, OFFERED, AddonHub, addon_hub
from tests.support.addon_requests import CLUSTER


async def known(hub: AddonHub, addon: str, *, as_template: bool = True) -> None:
    async def look() -> bool:
        assert hub.registry is not None
        found = hub.registry.find(addon)
        return (found is not None and found.name == addon) == as_template

    await hub.until(look, f"{addon} to be a template addon: {as_template}")


@pytest.fixture
async def idle() -> AsyncIterator[AddonHub]:
    async with addon_hub() as hub:
        yield hub


async def test_an_addon_that_lists_templates_is_one(idle: AddonHub) -> None:
    async with idle.running():
        await idle.offer("hello", "hello-1")
        await idle.offer("other", supports=False)
        await known(idle, "hello")
        await known(idle, "other", as_template=False)
        await idle.admin.patch(OFFERED, "hello", {"spec": {"supportedConfigs": []}})
        await known(idle, "hello", as_template=False)


async def test_it_is_one_until_its_last_addon_is_gone_also_after_a_restart(idle: AddonHub) -> None:
    """Defect 26: those that are left would wait for ever for whoever lets them go."""
    await idle.cluster()
    await idle.offer("hello", "hello-1")
    await idle.enable(template="hello-1")
    async with idle.running():
        await known(idle, "hello")
        await idle.admin.delete(OFFERED, "hello")
        await known(idle, "gone", as_template=False)
        await known(idle, "hello")
    async with idle.running():
        await known(idle, "hello")
        await idle.admin.delete(ADDONS, "hello", CLUSTER)
        await known(idle, "hello", as_template=False)


async def test_an_agent_makes_no_template_addon_of_another(idle: AddonHub) -> None:
    async with idle.running():
        await idle.cluster()
        await idle.offer("other", supports=False)
        await idle.enable(name="other", template="hello-1")
        await idle.offer("marker", "hello-1")
        await known(idle, "marker")
        await known(idle, "other", as_template=False)
