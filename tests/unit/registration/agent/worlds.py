"""An agent's world for tests of one part of it, with a driver that does nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.api.resource import Document
from muster.machinery.metrics import Metrics
from muster.registration.agent.memory.bootstrap import Bootstraps
from muster.registration.agent.memory.hub_secret import HubSecret
from muster.registration.agent.world import AgentState, AgentWorld
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigSpoke
from muster.registration.drivers.seam import Progress
from muster.registration.names import AGENT_NAMESPACE, AgentIdentity
from muster.runtime.client.base import KubeClient
from muster.runtime.controller.events import EventRecorder
from tests.unit.registration.agent.conftest import Fleet, Link

IDENTITY = AgentIdentity("c1", "a")


class IdleDriver(KubeconfigSpoke):
    """Is content with everything; `steps` are what it says when it is asked, in turn."""

    def __init__(self, *steps: Progress) -> None:
        self.steps = list(steps)
        self.stored: list[dict[str, bytes]] = []
        self.pending: list[dict[str, bytes]] = []
        self.seen: list[Document | None] = []
        self.annotations: dict[str, str] = {}

    def decorate(self, cluster: Document) -> Document:
        if self.annotations:
            cluster["metadata"]["annotations"] = {**(cluster["metadata"].get("annotations") or {}), **self.annotations}
        return cluster

    def kubeconfig_user(self) -> Document:
        return {"client-certificate": "tls.crt", "client-key": "tls.key"}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        return "" if "tls.crt" in stored else "no certificate"

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> Progress:
        self.stored.append(dict(stored))
        self.pending.append(dict(pending))
        self.seen.append(seen)
        return self.steps.pop(0) if self.steps else Progress()


def world_of(fleet: Fleet, driver: IdleDriver | None = None, **options: Any) -> AgentWorld:
    spoke = Link(fleet.spoke, fleet.account)
    return AgentWorld(
        spoke,
        HubSecret(spoke, AGENT_NAMESPACE, "hub-kubeconfig-secret", fleet.directory / "hub", KUBECONFIGS),
        Bootstraps({}, AGENT_NAMESPACE, (), fleet.directory / "bootstrap", KUBECONFIGS, fleet.clock),
        EventRecorder(spoke, "agent", "test", clock=fleet.clock),
        replace(fleet.options, **options),
        IDENTITY,
        driver or IdleDriver(),
        fleet.connect,
        AgentState("c1"),
        Metrics(),
        fleet.clock,
        lambda: 0.5,
    )
