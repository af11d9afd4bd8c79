"""What `/metrics` of the hub tells of managed clusters and addons, as they are now."""

from __future__ import annotations

from datetime import timedelta

from muster.api.cluster.v1 import AVAILABLE, JOINED
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.registration.hub.cluster_metrics import ClusterMetrics
from muster.registration.hub.health.addon_health import AddonHealth
from muster.registration.kinds import ADDONS, MANAGED_CLUSTERS
from tests.unit.registration.hub.conftest import Play
from tests.unit.registration.hub.watched import Watched

CLUSTER = "muster_managed_cluster_condition"
ADDON = "muster_managed_cluster_addon_condition"
JOIN = "muster_managed_cluster_join_duration_seconds"


def exposes(play: Play, *lines: str) -> bool:
    return set(lines) <= set(play.metrics.render().decode().splitlines())


def condition(kind: str, status: str, cluster: str = "c1") -> str:
    return f'{CLUSTER}{{cluster="{cluster}",condition="{kind}",status="{status}"}} 1'


async def until_exposed(play: Play, *lines: str) -> None:
    async def probe() -> bool:
        return exposes(play, *lines)

    await play.until(probe)


async def test_each_condition_of_a_cluster_is_a_series_with_its_present_status(play: Play) -> None:
    async with play.running(AddonHealth) as world:
        ClusterMetrics(world)
        await play.create_cluster("c1")
        await until_exposed(play, *(condition(kind, "Unknown") for kind in ("HubAcceptedManagedCluster", JOINED, AVAILABLE)))
        await Watched(play).report(**{AVAILABLE: "False"})
        await until_exposed(play, condition(AVAILABLE, "False"), condition(JOINED, "Unknown"))
        assert not exposes(play, condition(AVAILABLE, "Unknown"))
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await until_exposed(play, f"# TYPE {CLUSTER} gauge")

        async def gone() -> bool:
            return f'{CLUSTER}{{cluster="c1"' not in play.metrics.render().decode()

        await play.until(gone)


async def test_joining_is_timed_once_from_creation_and_not_for_clusters_that_had_joined(play: Play) -> None:
    await play.create_cluster("before")
    await Watched(play, "before").report(**{JOINED: "True"})
    created = parse_time((await play.create_cluster("c1"))["metadata"]["creationTimestamp"])
    joined = {"type": JOINED, "status": "True", "reason": "Said", "message": ""}
    async with play.running(AddonHealth) as world:
        ClusterMetrics(world)
        await until_exposed(play, condition(JOINED, "True", "before"), condition(JOINED, "Unknown"))
        said = {**joined, "lastTransitionTime": format_time(created + timedelta(seconds=20))}
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"status": {"conditions": [said]}}, subresource="status")
        buckets = (f'{JOIN}_bucket{{le="15.0"}} 0', f'{JOIN}_bucket{{le="30.0"}} 1')
        await until_exposed(play, f"{JOIN}_sum 20", f"{JOIN}_count 1", *buckets)
        await Watched(play).report(**{JOINED: "True", AVAILABLE: "True"})
        await until_exposed(play, condition(AVAILABLE, "True"), f"{JOIN}_count 1")


async def test_addons_are_told_by_whether_they_are_available_until_they_go(play: Play) -> None:
    def line(status: str) -> str:
        return f'{ADDON}{{cluster="c1",addon="search",condition="Available",status="{status}"}} 1'

    cluster = Watched(play)
    await cluster.join()
    metadata = {"name": "search", "namespace": "c1"}
    await play.admin.create(ADDONS, {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind, "metadata": metadata, "spec": {}})
    async with play.running(AddonHealth) as world:
        ClusterMetrics(world)
        await until_exposed(play, line("Unknown"))
        since = "2026-01-01T00:00:00Z"
        said = {"type": "Available", "status": "True", "reason": "Said", "message": "", "lastTransitionTime": since}
        await play.admin.patch(ADDONS, "search", {"status": {"conditions": [said]}}, "c1", subresource="status")
        await until_exposed(play, line("True"))
        await play.admin.delete(ADDONS, "search", "c1")

        async def gone() -> bool:
            return f"{ADDON}{{" not in play.metrics.render().decode()

        await play.until(gone)
