"""The rendered agent of an addon on one cluster, once per reconcile.

Nothing is rendered before its configurations exist. An agent rendered with other configurations than the desired ones (one was
edited, and is not released for this cluster) is only used for its health, and not deployed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from muster.addon.agent_addon import AddonError, Agent, AgentAddon, Installation
from muster.addon.framework.addon_context import hosting_cluster
from muster.addon.framework.configuration import Resolved
from muster.addon.framework.manifests import location_problem, with_namespace_label
from muster.addon.framework.registration import install_namespace
from muster.addon.framework.status_draft import CONFIGURED, StatusDraft
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.meta import is_true


@dataclass(frozen=True)
class RenderedAgent:
    agent: Agent | None = None
    """None while its configurations do not exist, or if it could not be rendered."""
    problem: str = ""
    """Why it could not be rendered, or must not be deployed."""
    current: bool = False
    """Rendered with the desired configurations."""

    @property
    def deployable(self) -> Agent | None:
        return self.agent if self.current else None


def render(
    addon: AgentAddon,
    installed: ManagedClusterAddOn,
    cluster: ManagedCluster,
    draft: StatusDraft,
    resolved: Resolved,
    neighbours: Mapping[str, ManagedClusterAddOn],
    *,
    awaited: bool = False,
) -> RenderedAgent:
    """`awaited`: another process will configure it first."""
    if resolved.missing or (addon.needs_configuration and not resolved.configs):
        return RenderedAgent()
    never = not draft.status.config_references and not is_true(draft.status.conditions, CONFIGURED)
    if never and (awaited or draft.condition(CONFIGURED) is not None):
        # Without a plan, or not released for this cluster: it is not deployed without its first configuration.
        return RenderedAgent()
    as_wanted = msgspec.structs.replace(installed, status=draft.status)
    try:
        agent = addon.agent(Installation(cluster, as_wanted, resolved.configs, neighbours))
    except AddonError as error:
        return RenderedAgent(problem=str(error), current=resolved.current)
    problem = location_problem(agent.manifests) if addon.hosted and hosting_cluster(installed) else ""
    if problem:
        return RenderedAgent(problem=problem, current=resolved.current)
    manifests = with_namespace_label(agent.manifests, install_namespace(installed, agent))
    agent = dataclasses.replace(agent, manifests=manifests)
    return RenderedAgent(agent, problem=agent.paused, current=resolved.current and not agent.paused)
