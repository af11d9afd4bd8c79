"""Addons of an unreachable cluster are Unknown with it; of others they speak for themselves."""

from muster.api.cluster.v1 import AVAILABLE
from muster.machinery.objects import Object
from muster.registration.hub.health.addon_health import AddonHealth
from muster.registration.kinds import ADDONS
from tests.unit.registration.hub.conftest import Play
from tests.unit.registration.hub.watched import Watched


async def create_addon(play: Play, cluster: str, name: str) -> None:
    metadata = {"name": name, "namespace": cluster}
    await play.admin.create(ADDONS, {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind, "metadata": metadata, "spec": {}})


async def available(play: Play, cluster: str, name: str) -> Object | None:
    addon = await play.admin.get(ADDONS, name, cluster)
    conditions = (addon.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == "Available"), None)


async def test_unknown_is_copied_with_its_reason_to_every_addon_also_to_later_ones(play: Play) -> None:
    first, second = Watched(play, "c1"), Watched(play, "c2")
    await first.join()
    await second.join()
    await create_addon(play, "c1", "search")
    await create_addon(play, "c2", "search")
    async with play.running(AddonHealth):
        await play.at_rest()
        assert play.hub_client.writes() == []
        await first.report(**{AVAILABLE: "Unknown"})
        condition = await play.until(lambda: available(play, "c1", "search"))
        assert (condition["status"], condition["reason"]) == ("Unknown", "Said")
        await create_addon(play, "c1", "late")
        assert (await play.until(lambda: available(play, "c1", "late")))["status"] == "Unknown"
        await play.at_rest()
        assert await available(play, "c2", "search") is None


async def test_an_unwell_cluster_leaves_its_addons_their_word(play: Play) -> None:
    cluster = Watched(play)
    await cluster.join()
    await create_addon(play, "c1", "search")
    async with play.running(AddonHealth):
        await cluster.report(**{AVAILABLE: "False"})
        await play.at_rest()
        assert await available(play, "c1", "search") is None
