"""Deploys an addon's manifests by works at its sites, and sets the conditions.

Each site has its own works and its own condition. Works of the own cluster without manifests are deleted, and so are hosted ones in
the namespace of a cluster that does not host the addon (any more).
"""

from __future__ import annotations

import msgspec

from muster.addon.framework.addon_context import AddonContext, hosting_cluster
from muster.addon.framework.effects import write_works
from muster.addon.framework.manifests import Sorted
from muster.addon.framework.owned import OwnedObjects
from muster.addon.framework.progress import Deployed, set_applied
from muster.addon.framework.rendered_agent import RenderedAgent
from muster.addon.framework.resources import ServedResources
from muster.addon.framework.status_draft import (
    HOSTING_CLUSTER_VALIDITY,
    HOSTING_MANIFEST_APPLIED,
    MANIFEST_APPLIED,
    StatusDraft,
)
from muster.addon.framework.works import deploy_works, work_rules
from muster.api.work.v1 import ManifestWork


class Deployment:
    def __init__(self, works: OwnedObjects[ManifestWork], resources: ServedResources) -> None:
        self._works = works
        self._resources = resources

    def works_of(self, addon_context: AddonContext) -> list[ManifestWork]:
        """Those that are deployed, at all sites."""
        present = self._works.of(addon_context.key)
        return [*addon_context.works_of(addon_context.site, present), *addon_context.works_of(addon_context.hosting_site, present)]

    async def deploy(
        self, addon_context: AddonContext, draft: StatusDraft, rendering: RenderedAgent, manifests: Sorted
    ) -> list[str]:
        """Returns what could not be written."""
        set_hosting(draft, addon_context)
        sites = [(addon_context.site, manifests.managed, MANIFEST_APPLIED)]
        if (hosting := addon_context.hosting_site) is not None:
            sites.append((hosting, manifests.hosting, HOSTING_MANIFEST_APPLIED))
        agent = rendering.deployable
        if agent is None:
            error = f"failed to get manifest from agent interface: {rendering.problem}" if rendering.problem else ""
            for site, _, condition in sites:
                set_applied(draft, condition, Deployed(addon_context.works_of(site, self._works.of(addon_context.key)), error))
            return []
        addon = msgspec.structs.replace(addon_context.addon, status=draft.status)
        everything = [*manifests.managed, *manifests.hosting]
        rules = work_rules(agent, everything, await self._resources.plurals(everything))
        problems = []
        for site, some, condition in sites:
            present = addon_context.works_of(site, self._works.of(addon_context.key))
            wanted = deploy_works(site, addon, some, rules, present)
            names = {one.key.name for one in wanted}
            surplus = [one for one in present if one.metadata.name not in names]
            problem = await write_works(self._works, addon_context.key, wanted, surplus)
            now = addon_context.works_of(site, self._works.of(addon_context.key))
            error = f"failed to apply manifestWork: {problem}" if problem else ""
            set_applied(draft, condition, Deployed(now, error, nothing_to_deploy=not some), agent.warnings)
            problems.append(problem)
        misplaced = [one for one in self._works.of(addon_context.key) if addon_context.is_misplaced(one)]
        return [*problems, await write_works(self._works, addon_context.key, (), misplaced)]


def set_hosting(draft: StatusDraft, addon_context: AddonContext) -> None:
    """Set the condition whether the hosting cluster exists, if the addon requests one."""
    if not addon_context.is_hosted:
        draft.drop(HOSTING_CLUSTER_VALIDITY)
    else:
        valid = addon_context.hosting is not None
        article = "a" if valid else "not a"
        message = f"hosting cluster {hosting_cluster(addon_context.addon)} is {article} managed cluster of the hub"
        draft.set(HOSTING_CLUSTER_VALIDITY, valid, "HostingClusterValid" if valid else "HostingClusterInvalid", message)
    if not addon_context.can_be_hosted:
        draft.drop(HOSTING_MANIFEST_APPLIED)
