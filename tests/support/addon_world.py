"""Addons, their placements and their clusters, put together in memory, and plans that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from muster.addon.config_objects import ConfigKey
from muster.addon.manager.addon_plan import AddonPlan, AddonSnapshot, PlacementState, plan_addon
from muster.addon.manager.installed import InstalledAddon
from muster.addon.manager.status import status_of
from muster.addon.plans import Planned
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1beta1 import PlacementDecision
from muster.api.resource import known_fields
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object, ObjectKey

NOW: Final = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
GROUP: Final = "addon.open-cluster-management.io"
NS: Final = "apps"
LABELS: Final = "cluster.open-cluster-management.io"


def deployment_config(name: str) -> Object:
    """A reference to an AddOnDeploymentConfig."""
    return {"group": GROUP, "resource": "addondeploymentconfigs", "namespace": "config", "name": name}


def template(name: str) -> Object:
    return {"group": GROUP, "resource": "addontemplates", "name": name}


def supported(reference: Object) -> Object:
    """A kind of configuration with this default."""
    kind = {part: reference[part] for part in ("group", "resource")}
    return {**kind, "defaultConfig": {part: reference[part] for part in ("namespace", "name") if part in reference}}


def by_placement(name: str, *configs: Object, strategy: Object | None = None) -> Object:
    return {"namespace": NS, "name": name, "configs": list(configs), "rolloutStrategy": strategy or {"type": "All"}}


def addon_document(
    *placements: Object, defaults: Sequence[Object] = (), annotations: Mapping[str, str] | None = None, name: str = "hello"
) -> Object:
    strategy = {"type": "Placements", "placements": list(placements)} if placements else {"type": "Manual"}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ClusterManagementAddOn",
        "metadata": {"name": name, "uid": f"{name}-uid", "annotations": dict(annotations or {})},
        "spec": {"supportedConfigs": [supported(one) for one in defaults], "installStrategy": strategy},
    }


def decision(placement: str, clusters: Sequence[str], group: str = "", index: int = 0) -> PlacementDecision:
    labels = {
        f"{LABELS}/placement": placement,
        f"{LABELS}/decision-group-name": group,
        f"{LABELS}/decision-group-index": str(index),
    }
    metadata = {"name": f"{placement}-{index}", "namespace": NS, "labels": labels}
    return PlacementDecision.decode(
        {"metadata": metadata, "status": {"decisions": [{"clusterName": cluster, "reason": ""} for cluster in clusters]}}
    )


@dataclass
class AddonWorld:
    """Configurations have the hash `<name>-<version>`; what is not named has version 1, and version 0 is not there."""

    addon: Object
    placements: dict[str, PlacementState] = field(default_factory=dict)
    managed: dict[str, Object] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    now: datetime = NOW

    def choose(
        self, placement: str, *groups: str | Sequence[str], names: Sequence[str] = (), per_group: int | str = "100%"
    ) -> None:
        """Groups of clusters, each a list or a text of one-letter names."""
        named = [*names, *[""] * len(groups)]
        decisions = [decision(placement, list(group), named[index], index) for index, group in enumerate(groups)]
        self.placements[placement] = PlacementState(decisions, per_group)

    def install(self, *clusters: str, configs: Sequence[Object] = (), **metadata: Any) -> None:
        for cluster in clusters:
            self.managed[cluster] = {
                "metadata": {"name": self.addon["metadata"]["name"], "namespace": cluster, "uid": f"{cluster}-uid", **metadata},
                "spec": {"configs": list(configs)},
            }

    def plan(self) -> AddonPlan:
        return plan_addon(self._world())

    def planned(self, cluster: str) -> Planned:
        found = self.plan().plan
        assert found is not None
        return found.clusters[cluster]

    def configs(self, cluster: str) -> list[str]:
        """The names of the configurations that a cluster is to have."""
        return [one.config.name for one in self.planned(cluster).configs]

    def released(self) -> str:
        found = self.plan().plan
        assert found is not None
        return "".join(sorted(cluster for cluster, one in found.clusters.items() if one.released))

    def _world(self) -> AddonSnapshot:
        installed = {cluster: InstalledAddon.of(ManagedClusterAddOn.decode(one)) for cluster, one in self.managed.items()}
        placements = {ObjectKey(NS, name): state for name, state in self.placements.items()}
        return AddonSnapshot(ClusterManagementAddOn.decode(self.addon), placements, installed, self.hash_of, self.now)

    def hash_of(self, key: ConfigKey) -> str:
        version = self.versions.get(key.name, 1)
        return f"{key.name}-{version}" if version else ""

    def report(self) -> Object:
        """Write the plan's status into the addon, as the manager does; gives it."""
        world = self._world()
        written: Object = known_fields(status_of(world.addon, plan_addon(world), self.hash_of, self.now))
        self.addon["status"] = written
        return written

    # What the framework does

    def configure(self, *clusters: str) -> None:
        """Give the released ones what is planned."""
        for cluster in clusters:
            planned = self.planned(cluster)
            assert planned.released, cluster
            references = []
            for one in planned.configs:
                desired = {"name": one.config.name, "namespace": one.config.namespace, "specHash": one.config.spec_hash}
                references.append({"group": one.group, "resource": one.resource, "name": one.config.name, "desiredConfig": desired})
            self.managed[cluster]["status"] = {"configReferences": references}

    def fare(self, reason: str, *clusters: str, minutes: float = 60, applied: bool | None = None) -> None:
        """`reason` of Progressing, since so many minutes; what is completed is applied."""
        for cluster in clusters:
            status = self.managed[cluster].setdefault("status", {})
            if reason == "Completed" if applied is None else applied:
                for one in status.get("configReferences", []):
                    one["lastAppliedConfig"] = one["desiredConfig"]
            since = format_time(self.now - timedelta(minutes=minutes))
            condition = {"type": "Progressing", "status": "False", "reason": reason, "message": "", "lastTransitionTime": since}
            status["conditions"] = [condition]
