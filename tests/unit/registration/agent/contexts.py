"""An agent's context for tests of one part of it, with a driver that does nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.api.resource import Document
from muster.machinery.metrics import Metrics
from muster.registration.agent.context import AgentContext, AgentState
from muster.registration.agent.state.bootstrap import Bootstraps
from muster.registration.agent.state.hub_secret import HubSecret
from muster.registration.drivers.interfaces import StepResult
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigSpoke
from muster.registration.names import AGENT_NAMESPACE, AgentIdentity
from muster.runtime.cache.informer import Informers
from muster.runtime.client.base import KubeClient
from muster.runtime.controller.events import EventRecorder
from tests.unit.registration.agent.conftest import Fleet, Link

IDENTITY = AgentIdentity("c1", "a")


class IdleDriver(KubeconfigSpoke):
    """Is content with everything; `steps` are what it says when it is asked, in turn."""

    def __init__(self, *steps: StepResult) -> None:
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
    ) -> StepResult:
        self.stored.append(dict(stored))
        self.pending.append(dict(pending))
        self.seen.append(seen)
        return self.steps.pop(0) if self.steps else StepResult()


def context_of(fleet: Fleet, driver: IdleDriver | None = None, **options: Any) -> AgentContext:
    spoke = Link(fleet.spoke, fleet.account)
    return AgentContext(
        spoke,
        Informers(spoke, clock=fleet.clock),
        EventRecorder(spoke, "agent", "test", clock=fleet.clock),
        Metrics(),
        fleet.clock,
        lambda: 0.5,
        management=spoke,
        secret=HubSecret(spoke, AGENT_NAMESPACE, "hub-kubeconfig-secret", fleet.directory / "hub", KUBECONFIGS),
        bootstraps=Bootstraps({}, AGENT_NAMESPACE, (), fleet.directory / "bootstrap", KUBECONFIGS, fleet.clock),
        options=replace(fleet.options, **options),
        identity=IDENTITY,
        driver=driver or IdleDriver(),
        connect=fleet.connect,
        state=AgentState("c1"),
    )
