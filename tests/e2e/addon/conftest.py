"""A hub with registration, placement and addon manager as processes, and a managed cluster with its agents, for addons.

`site` has one managed cluster that is really there, joined once; clusters that only the hub knows are made by tests that need many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from muster.registration.agent.install import ADDON_ROLE
from tests.support.addon_site import AUTO, AddonSite, work_agent
from tests.support.administrator import AVAILABLE, RBAC
from tests.support.hub_components import AddonHub, PlacementHub
from tests.support.planes import ControlPlane, lent
from tests.support.processes import complaints, tail
from tests.support.registration import Agent, Hub, Spoke


@dataclass
class Site(AddonSite):
    agent: Agent

    def let_agent_in(self, namespace: str) -> None:
        """As the Klusterlet operator does in every namespace with the label for addons."""
        found = self.wait_on_cluster(f"/api/v1/namespaces/{namespace}")
        assert found["metadata"]["labels"]["addon.open-cluster-management.io/namespace"] == "true"
        account = {"kind": "ServiceAccount", "name": "klusterlet-registration-sa", "namespace": self.agent.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ADDON_ROLE}
        body = {"metadata": {"name": "addon-management"}, "roleRef": role, "subjects": [account]}
        self.spoke.admin.post(f"{RBAC}/namespaces/{namespace}/rolebindings", body).expect(201)


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("addon"), "spoke")


@pytest.fixture(scope="session")
def site(ground: ControlPlane) -> Iterator[Site]:
    hub = Hub(ground.cluster, ground.directory / "hub", AUTO)
    hub.install()
    hub.start()
    placement = PlacementHub(ground.cluster, ground.directory / "placement")
    addons = AddonHub(ground.cluster, ground.directory / "addon-manager")
    for component in (placement, addons):
        component.install()
        component.start()
        hub.servers += component.servers
    spoke = Spoke(ground.extra("spoke"), ground.directory / "agents")
    agent = Agent(spoke, hub, f"managed{os.getpid()}", hub.trusted_kubeconfig()).start()
    hub.wait_condition(agent.name, AVAILABLE)
    works = work_agent(agent)
    hub.servers.append(works)
    works.start()
    yield Site(hub, spoke, agent.name, agent)
    works.stop(timeout=10)
    agent.stop()
    for component in (placement, addons):
        component.stop()
    hub.stop()
    assert addons.process is not None
    assert complaints(addons.process.log) == []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    site = getattr(item, "funcargs", {}).get("site")
    if report.failed and isinstance(site, Site):
        for process in site.hub.servers:
            report.sections.append((process.name, tail(process.log, 25)))
