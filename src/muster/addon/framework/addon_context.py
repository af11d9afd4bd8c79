"""One ManagedClusterAddOn with its related objects, as read by a reconcile."""

from __future__ import annotations

from dataclasses import dataclass

from muster.addon.agent_addon import AddonError, Agent, AgentAddon, Installation
from muster.addon.framework.works import WorkNamespace
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ConfigGroupResource, ManagedClusterAddOn
from muster.api.addons import HOSTING_CLUSTER_ANNOTATION
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestWork
from muster.machinery.objects import ObjectKey


def hosting_cluster(addon: ManagedClusterAddOn) -> str:
    """The cluster that hosts it; empty for its own."""
    return addon.metadata.annotations.get(HOSTING_CLUSTER_ANNOTATION, "")


@dataclass(frozen=True)
class ForeignAddon:
    """An addon whose agents another process deploys; this process only sets its configurations and progress."""

    name: str
    config_kinds: tuple[ConfigGroupResource, ...]
    hosted: bool = True
    needs_configuration: bool = False
    neighbours: tuple[str, ...] = ()

    def agent(self, installation: Installation) -> Agent:
        raise AddonError(f"addon {self.name} is not served by this process")


@dataclass(frozen=True)
class AddonContext:
    agent_addon: AgentAddon
    addon: ManagedClusterAddOn
    cluster: ManagedCluster | None
    hosting: ManagedCluster | None
    """The cluster that hosts the addon, if it exists."""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.addon.metadata.namespace, self.addon.metadata.name)

    @property
    def is_hosted(self) -> bool:
        return self.agent_addon.hosted and bool(hosting_cluster(self.addon))

    @property
    def can_be_hosted(self) -> bool:
        return self.is_hosted and self.hosting is not None and not self.hosting.metadata.deletion_timestamp

    @property
    def site(self) -> WorkNamespace:
        return WorkNamespace(self.key.name, self.key.namespace)

    @property
    def hosting_site(self) -> WorkNamespace | None:
        """The namespace of its hosted works, if it can be hosted."""
        return WorkNamespace(self.key.name, self.key.namespace, hosting_cluster(self.addon)) if self.can_be_hosted else None

    def owner(self) -> str | None:
        """The uid of the ClusterManagementAddOn that owns it; None if there is none."""
        kind = ClusterManagementAddOn.resource
        owners = self.addon.metadata.owner_references
        return next((owner.uid for owner in owners if (owner.kind, owner.name) == (kind.kind, self.key.name)), None)

    def works_of(self, site: WorkNamespace | None, works: list[ManifestWork]) -> tuple[ManifestWork, ...]:
        """Its deploy works at a site, in order."""
        if site is None:
            return ()
        numbered = [(number, work) for work in works if (number := site.number(work)) is not None]
        return tuple(work for _, work in sorted(numbered, key=lambda one: one[0]))

    def is_misplaced(self, work: ManifestWork) -> bool:
        """Whether a hosted work of the addon is in the namespace of a cluster that does not host it."""
        there = WorkNamespace(self.key.name, self.key.namespace, work.metadata.namespace)
        return there.has(work) and there != self.hosting_site
