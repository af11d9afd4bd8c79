"""The context that all parts of an agent share: its cluster, its Secrets, identity, driver, hubs, and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from muster.machinery.logs import get_logger
from muster.registration.agent.options import AgentOptions
from muster.registration.agent.state.bootstrap import Bootstraps, Candidate
from muster.registration.agent.state.hub_secret import HubSecret
from muster.registration.drivers.endpoints import HubAddress, HubEndpoint
from muster.registration.drivers.interfaces import SpokeDriver
from muster.registration.names import AgentIdentity
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext

log = get_logger("muster.registration.agent")

Connect = Callable[[HubEndpoint], KubeClient]
"""A client of a hub. Raises EndpointError."""


@dataclass
class AgentState:
    """What the agent is doing, for people and health checks."""

    cluster: str = ""
    phase: str = "starting"
    hub: str = ""
    problem: str = ""
    """What it waits for; empty when all goes well."""
    registered: bool = False
    """Whether it ever had a credential that worked."""

    def report(self, phase: str, hub: str, problem: str = "") -> None:
        """Note what is going on; log it when that is news."""
        if problem and problem != self.problem:
            log.warning("waiting", cluster=self.cluster, phase=phase, problem=problem)
        elif not problem and (phase, hub) != (self.phase, self.hub):
            log.info(phase, cluster=self.cluster, hub=hub)
        self.phase, self.hub, self.problem = phase, hub, problem


@dataclass(frozen=True, kw_only=True)
class AgentContext(ControllerContext):
    """Client and caches are the managed cluster's; events are recorded on the cluster that the agent's Secrets are on."""

    management: KubeClient
    """The cluster with the agent's Secrets; the managed one itself, unless the agent is hosted."""
    secret: HubSecret
    bootstraps: Bootstraps
    options: AgentOptions
    identity: AgentIdentity
    driver: SpokeDriver
    connect: Connect
    state: AgentState

    @property
    def cluster(self) -> str:
        return self.identity.cluster

    def candidate(self, address: HubAddress) -> Candidate | None:
        """The bootstrap kubeconfig for a hub."""
        return next((candidate for candidate in self.bootstraps.candidates if candidate.address == address), None)

    def api_of(self, address: HubAddress) -> HubAddress | None:
        """The API server of a hub, for addons; None if the agent does not know it."""
        candidate = self.candidate(address)
        return address if self.secret.leads_to_api else None if candidate is None else candidate.api

    def credential_problem(self, address: HubAddress | None = None) -> str:
        """Why the stored credential is of no use (for this hub); empty when it is."""
        if address is not None and self.secret.address != address:
            return "no credential for this hub is stored"
        if self.secret.is_of_another(self.identity):
            return "the stored credential is another agent's"
        return self.driver.problem(self.secret.data)
