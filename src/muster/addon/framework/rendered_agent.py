"""An addon's agent on one cluster, rendered once for everything that a pass needs of it.

Nothing is rendered before its configurations are there. One that was rendered with other configurations than are wanted (somebody
edited one, and it is not this cluster's turn) serves to know how its health is told, and is not deployed.
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
    """None while its configurations are not there, or where it could not be rendered."""
    problem: str = ""
    """Why it could not, or is not to be deployed."""
    current: bool = False
    """With the configurations that are wanted."""

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
    """`awaited`: somebody else will say when it is configured, and it is not begun before."""
    if resolved.missing or (addon.needs_configuration and not resolved.configs):
        return RenderedAgent()
    never = not draft.status.config_references and not is_true(draft.status.conditions, CONFIGURED)
    if never and (awaited or draft.condition(CONFIGURED) is not None):
        # Not planned yet, or not this cluster's turn: without its first configuration it is not begun.
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
