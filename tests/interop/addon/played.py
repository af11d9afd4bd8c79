"""Our addon manager and framework, played without a server: their decisions, one after the other, until nothing changes any more.

What a step starts from are the objects as upstream left them after the step before: so a difference stays where it is, and what
ours does is what it would do if it took over from upstream there and then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from muster.addon.agent_addon import Agent, AgentAddon, ConfigObject, Health, HealthMode
from muster.addon.agent_addon import Installation as On
from muster.addon.config_objects import ConfigKey, Listener
from muster.addon.framework.configuration import configure, observed, resolve, unsupported
from muster.addon.framework.progress import Deployed, set_applied, set_progress
from muster.addon.framework.rendered_agent import render
from muster.addon.framework.status_draft import MANIFEST_APPLIED, StatusDraft
from muster.addon.framework.works import WorkNamespace, WorkRules, deploy_works
from muster.addon.manager.addon_plan import AddonPlan, AddonSnapshot, PlacementState, plan_addon
from muster.addon.manager.installation import installation_changes
from muster.addon.manager.installed import InstalledAddon
from muster.addon.manager.ownership import owner_of, with_owner
from muster.addon.manager.references import referenced
from muster.addon.manager.status import status_of
from muster.addon.plans import Planned
from muster.addon.spec_hash import spec_hash
from muster.api.addon.v1alpha1 import GROUP, ClusterManagementAddOn, ConfigGroupResource, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1beta1 import PLACEMENT_LABEL, Placement, PlacementDecision
from muster.api.resource import known_fields
from muster.api.work.v1 import APPLIED, AVAILABLE, ManifestWork
from muster.machinery.objects import Object, ObjectKey
from tests.support.random_addons import NAME

Answer = dict[str, Any]
ROUNDS: Final = 60
CONFIG_KINDS: Final = {"AddOnDeploymentConfig": (GROUP, "addondeploymentconfigs"), "ConfigMap": ("", "configmaps")}
REPORTS: Final[Mapping[str, dict[str, str]]] = {
    "silent": {},
    "failing": {APPLIED: "False"},
    "applied": {APPLIED: "True", AVAILABLE: "False"},
    "ready": {APPLIED: "True", AVAILABLE: "True"},
}


class PlayedAddon:
    """A ConfigMap on each cluster, without registration; as `peers/addons` has it."""

    name = NAME
    config_kinds = tuple(ConfigGroupResource(group=group, resource=resource) for group, resource in CONFIG_KINDS.values())
    hosted = False
    needs_configuration = False
    neighbours = ()

    def agent(self, installation: On) -> Agent:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": "default"}}
        return Agent(manifests=(manifest,), health=Health(HealthMode.NONE))


@dataclass
class PlayedConfigs:
    found: dict[ConfigKey, ConfigObject] = field(default_factory=dict)

    def get(self, group: str, resource: str, namespace: str, name: str) -> ConfigObject | None:
        return self.found.get(ConfigKey(group, resource, namespace, name))

    def on_change(self, listener: Listener) -> None:
        """Nothing changes while it is looked at."""


@dataclass
class PlayedManager:
    addon: AgentAddon = field(default_factory=PlayedAddon)
    offer: ClusterManagementAddOn | None = None
    addons: dict[str, ManagedClusterAddOn] = field(default_factory=dict)
    """By cluster, as the works are."""
    works: dict[str, tuple[ManifestWork, ...]] = field(default_factory=dict)
    configs: PlayedConfigs = field(default_factory=PlayedConfigs)
    placements: dict[ObjectKey, Placement] = field(default_factory=dict)
    decisions: dict[ObjectKey, PlacementDecision] = field(default_factory=dict)

    # What happens

    def take_over(self, answer: Answer) -> None:
        """What upstream left."""
        for document in answer["offers"].values():
            self.offer = ClusterManagementAddOn.decode(document)
        self.addons = {one["metadata"]["namespace"]: ManagedClusterAddOn.decode(one) for one in answer["addons"].values()}
        works = [ManifestWork.decode(one) for one in answer["works"].values()]
        self.works = {cluster: tuple(one for one in works if one.metadata.namespace == cluster) for cluster in self.addons}

    def set(self, document: Object) -> None:
        metadata = document["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        match document["kind"]:
            case "ClusterManagementAddOn":
                offer = ClusterManagementAddOn.decode({**document, "metadata": {**metadata, "uid": NAME}})
                status = self.offer.status if self.offer is not None else offer.status
                self.offer = msgspec.structs.replace(offer, status=status)
            case "ManagedClusterAddOn":
                wished = ManagedClusterAddOn.decode(document)
                there = self.addons.get(key.namespace, wished)
                self.addons[key.namespace] = msgspec.structs.replace(there, spec=wished.spec)
            case "Placement":
                self.placements[key] = Placement.decode(document)
            case "PlacementDecision":
                self.decisions[key] = PlacementDecision.decode(document)
            case kind if kind in CONFIG_KINDS:
                place = ConfigKey(*CONFIG_KINDS[kind], *key)
                self.configs.found[place] = ConfigObject(place.group, place.resource, document, spec_hash(document))

    def delete(self, gone: dict[str, str]) -> None:
        key = ObjectKey(gone["namespace"], gone["name"])
        held: dict[ObjectKey, Placement] | dict[ObjectKey, PlacementDecision]
        held = self.placements if gone["kind"] == "Placement" else self.decisions
        del held[key]

    # What ours makes of it

    def settle(self, agents: Mapping[str, str], now: datetime) -> bool:
        """False if it goes on for ever."""
        for _ in range(ROUNDS):
            before = self._state()
            self._pass(agents, now)
            if self._state() == before:
                return True
        return False

    def _state(self) -> tuple[object, ...]:
        works = {cluster: [known_fields(one) for one in some] for cluster, some in self.works.items()}
        return known_fields(self.offer), {cluster: known_fields(one) for cluster, one in self.addons.items()}, works

    def _pass(self, agents: Mapping[str, str], now: datetime) -> None:
        if self.offer is None:
            return
        self._install(self.offer)
        planned = self._plan(self.offer, now)
        for cluster in sorted(self.addons):
            mine = planned.plan.clusters[cluster] if planned.plan is not None else None
            self._serve(cluster, mine, agents.get(cluster, "silent"), now)

    def _states(self, offer: ClusterManagementAddOn) -> dict[ObjectKey, PlacementState]:
        found = {}
        for strategy in offer.spec.install_strategy.placements:
            key = ObjectKey(strategy.namespace, strategy.name)
            if (placement := self.placements.get(key)) is not None:
                some = [one for one in self.decisions.values() if one.metadata.labels[PLACEMENT_LABEL] == key.name]
                found[key] = PlacementState(some, placement.spec.decision_strategy.group_strategy.clusters_per_decision_group)
        return found

    def _install(self, offer: ClusterManagementAddOn) -> None:
        installed = {cluster: InstalledAddon.of(one) for cluster, one in self.addons.items()}
        changes = installation_changes(offer, self._states(offer), installed, lambda cluster: True)
        for cluster in changes.create:
            metadata = {"name": NAME, "namespace": cluster, "ownerReferences": [known_fields(owner_of(offer))]}
            self.addons[cluster] = ManagedClusterAddOn.decode({"metadata": metadata, "spec": {}})
        for cluster in changes.delete:
            del self.addons[cluster]
            self.works.pop(cluster, None)
        for cluster, one in self.addons.items():
            owned = msgspec.structs.replace(one.metadata, owner_references=with_owner(one.metadata.owner_references, offer))
            self.addons[cluster] = msgspec.structs.replace(one, metadata=owned)

    def _plan(self, offer: ClusterManagementAddOn, now: datetime) -> AddonPlan:
        installed = {cluster: InstalledAddon.of(one) for cluster, one in self.addons.items()}
        keys = referenced(offer, (one.own for one in installed.values()))

        def hash_of(key: ConfigKey) -> str:
            found = self.configs.get(*key) if key in keys else None
            return found.spec_hash if found is not None else ""

        planned = plan_addon(AddonSnapshot(offer, self._states(offer), installed, hash_of, now))
        self.offer = msgspec.structs.replace(offer, status=status_of(offer, planned, hash_of, now))
        return planned

    def _serve(self, cluster: str, planned: Planned | None, state: str, now: datetime) -> None:
        """As a pass of the framework over one ManagedClusterAddOn goes; what nobody plans has a process of its own."""
        one = self.addons[cluster]
        draft = StatusDraft(one, now)
        if planned is not None:
            configure(draft, planned)
        own = one.spec.configs if planned is None else ()
        draft.put(
            config_references=observed(draft.status.config_references, self.configs, own),
            supported_configs=tuple(self.addon.config_kinds),
        )
        managed = ManagedCluster.decode({"metadata": {"name": cluster}})
        rendering = render(self.addon, one, managed, draft, resolve(draft.status.config_references, self.configs), {})
        present = self.works.get(cluster, ())
        if (agent := rendering.deployable) is not None:
            as_drafted = msgspec.structs.replace(one, status=draft.status)
            wanted = deploy_works(WorkNamespace(NAME, cluster), as_drafted, agent.manifests, WorkRules(), present)
            present = tuple(ManifestWork.decode(work.document()) for work in wanted)
        present = tuple(_reported(work, state) for work in present)
        self.works[cluster] = present
        set_applied(draft, MANIFEST_APPLIED, Deployed(present))
        if planned is not None:
            set_progress(draft, unsupported(one, self.addon.config_kinds), present, hosted=False)
        self.addons[cluster] = msgspec.structs.replace(one, status=draft.status)


def _reported(work: ManifestWork, state: str) -> ManifestWork:
    conditions = [{"type": kind, "status": status, "reason": "Played"} for kind, status in REPORTS[state].items()]
    return ManifestWork.decode({**known_fields(work), "status": {"conditions": conditions}})
