"""The addon manager as a whole: it may die at any write, others may lead after it, and ends where it would have ended.

MUSTER_ADDON_FAULTS=full looks at every write, not only at some.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
import pytest

from muster.addon.install import LOCK
from muster.machinery.objects import Object
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import ROLE_BINDINGS
from muster.runtime.controller.leader_election import LeaderElection, LeaderElector
from muster.work.kinds import MANIFEST_WORKS
from tests.support.eventually import eventually
from tests.support.followed_addon import INSTALLED, OFFERS, FollowedAddon, progressive
from tests.support.mortal_hub import Life, Mortal
from tests.unit.addon.conftest import ManagerSite, until

FULL = os.environ.get("MUSTER_ADDON_FAULTS") == "full"
CLUSTERS = ("c1", "c2", "c3")
AT_ONCE = 2
MOST = 80
"""Writes that nothing here needs."""
FIRST, STEP = (0, 1) if FULL else (5, 11)
"""A manager that dies before it knows the configurations takes ten seconds to end."""
_HASH = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


async def left(site: ManagerSite, addon: str) -> str:
    """What there is of an addon in the end, without what has to differ."""

    def mine(one: Object) -> bool:
        return addon in (
            one["metadata"]["name"],
            (one["metadata"].get("labels") or {}).get("open-cluster-management.io/addon-name"),
        )

    found: list[Any] = []
    for resource in (OFFERS, INSTALLED, MANIFEST_WORKS, ROLE_BINDINGS):
        for one in (await site.admin.list(resource)).items:
            if mine(one):
                metadata = one["metadata"]
                kept = {key: metadata.get(key) for key in ("name", "namespace", "labels", "annotations", "finalizers")}
                status = one.get("status") if resource is not MANIFEST_WORKS else None
                said = {key: value for key, value in (status or {}).items() if key != "conditions"}
                conditions = sorted((c["type"], c["status"], c["reason"]) for c in (status or {}).get("conditions") or ())
                found.append([resource.plural, kept, one.get("spec"), one.get("subjects"), said, conditions])
    text = orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode().replace(addon, "X")
    hashes = {one: f"hash {number}" for number, one in enumerate(dict.fromkeys(_HASH.findall(text)))}
    return _HASH.sub(lambda match: hashes[match[0]], _UID.sub("U", _TIME.sub("T", text)))


async def through(addon: FollowedAddon) -> None:
    """What its administrator does and waits for: installed by turns, and then everybody gets other settings."""
    await until(addon, addon.is_applied, "all to be applied")
    before = await addon.configure("good evening")
    await until(addon, partial(addon.is_applied, besides=before), "the rollout")
    await eventually(partial(is_said, addon), f"{addon.addon} to be said to be completed")


async def is_said(addon: FollowedAddon) -> bool:
    (progression,) = (await addon.admin.get(OFFERS, addon.addon))["status"]["installProgressions"]
    (condition,) = progression["conditions"]
    applied = {desired for desired, _ in addon.settings.values()}
    known = {one["lastKnownGoodConfig"]["specHash"] for one in progression["configReferences"] if "lastKnownGoodConfig" in one}
    return condition["reason"] == "Completed" and applied <= known


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
@pytest.mark.timeout(600 if FULL else 120)
async def test_dying_at_any_write(site: ManagerSite, early: bool) -> None:
    await site.with_clusters(*CLUSTERS)
    ends: dict[int, str] = {}
    for writes in range(FIRST, MOST, STEP):
        async with site.followed(f"w{writes}") as addon:
            await addon.offer(CLUSTERS, progressive(AT_ONCE))
            end = asyncio.create_task(through(addon))
            async with site.managed(Life(writes, before=early)) as life:
                over = asyncio.create_task(life.over.wait())
                await asyncio.wait({over, end}, return_when=asyncio.FIRST_COMPLETED)
                over.cancel()
            async with site.managed():
                await end
            assert addon.most_at_once <= AT_ONCE
        ends[writes] = await left(site, addon.addon)
        if not life.over.is_set():
            break
    else:
        raise AssertionError(f"no manager should need {MOST} writes")
    assert len(set(ends.values())) == 1, "\n".join(dict.fromkeys(ends.values()))


class QuickElection(LeaderElection):
    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        elector = LeaderElector(
            self.client, self.lease, self.namespace, self.identity, lease_duration=5, renew_deadline=4.0, retry_period=0.3
        )
        await elector.run(lead)


@pytest.mark.parametrize("writes", range(4, 30) if FULL else [12, 24])
async def test_another_leads_in_the_middle_of_a_rollout(site: ManagerSite, writes: int) -> None:
    """The leader dies at some request and lets nothing go; who stood by waits for its lease to run out, and goes on."""
    await site.with_clusters(*CLUSTERS)

    def stands(identity: str, client: Mortal) -> LeaderElection:
        return QuickElection(client, LOCK, HUB_NAMESPACE, identity)

    async with site.followed("hello") as addon:
        await addon.offer(CLUSTERS, progressive(AT_ONCE))
        end = asyncio.create_task(through(addon))
        async with site.managed(Life(writes), partial(stands, "first")) as first:
            await until(addon, lambda: first.over.is_set() or addon.configured, "the first to lead")
            async with site.managed(None, partial(stands, "second")) as second:
                await end
        assert first.over.is_set()
        assert any("managedclusteraddons" in path for _, path in first.writes)
        assert any("managedclusteraddons" in path for _, path in second.writes)
        assert addon.most_at_once <= AT_ONCE
        assert addon.is_applied()
