"""One hub, a second hub and one managed cluster for all tests of registration, on planes of their own.

Of their own, because a hub's webhooks would meddle with the objects of other tests. Cluster names are given once, so tests do not
meet. The first hub approves and accepts by itself whoever is introduced by the bootstrap service account and waits for a person in
all other cases; the second hub also removes denied clusters after a moment, and has a driver from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.plugins import install
from tests.support.administrator import AVAILABLE, TRUSTED
from tests.support.link import Link
from tests.support.planes import USERS, ControlPlane, lent
from tests.support.processes import complaints, python_path, tail
from tests.support.registration import Agent, Hub, Spoke

AUTO = ("--feature-gates=ManagedClusterAutoApproval=true", f"--auto-approved-csr-users={TRUSTED}")
REMOVED_AFTER = 2


@dataclass
class Fleet:
    hub: Hub
    spoke: Spoke
    directory: Path
    agents: list[Agent] = field(default_factory=list)

    def agent(
        self,
        name: str,
        bootstrap: str = "",
        *,
        hub: Hub | None = None,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Agent:
        """A running agent, introduced by the trusted account unless told otherwise."""
        hub = hub or self.hub
        agent = Agent(self.spoke, hub, name, bootstrap or hub.trusted_kubeconfig(), flags, environment)
        self.agents.append(agent)
        return agent.start()

    def joined(self, name: str, *, lease: int = 60, hub: Hub | None = None, flags: Sequence[str] = ()) -> Agent:
        """An agent whose cluster is available."""
        agent = self.agent(name, hub=hub, flags=flags)
        agent.hub.wait_condition(name, AVAILABLE)
        if lease != 60:
            agent.hub.patch(name, {"spec": {"leaseDurationSeconds": lease}}).expect(200)
            agent.hub.wait_renewed(name)
        return agent

    def stop_agents(self) -> None:
        stopped, self.agents = self.agents, []
        for agent in stopped:
            agent.stop()
        for agent in stopped:
            assert complaints(agent.process.log) == []


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("registration"), "hub2", "spoke")


@pytest.fixture(scope="package")
def whole_fleet(ground: ControlPlane) -> Iterator[Fleet]:
    # Alone, so that a new one need not wait for the lease of one that was killed.
    hub = Hub(ground.cluster, ground.directory / "first", (*AUTO, "--no-leader-elect"))
    hub.install()
    hub.start()
    yield Fleet(hub, Spoke(ground.extra("spoke"), ground.directory / "agents"), ground.directory)
    hub.stop()
    # Objects that a test made unreadable are an error worth logging; nothing else that happens here is.
    assert [line for line in complaints(hub.process.log) if "key=rotten-" not in line] == []


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    yield whole_fleet
    whole_fleet.stop_agents()


@pytest.fixture(scope="package")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which another distribution's driver is installed."""
    site = tmp_path_factory.mktemp("plugin") / "site"
    install("static_token", site)
    return python_path(site)


@pytest.fixture(scope="package")
def hub_link(ground: ControlPlane) -> Iterator[Link]:
    """Between the second hub's processes and its API server."""
    link = Link(ground.extra("hub2").url)
    yield link
    link.close()


@pytest.fixture(scope="package")
def second_hub(ground: ControlPlane, plugin: dict[str, str], hub_link: Link) -> Iterator[Hub]:
    digest = hashlib.sha256(USERS["plugged"].token.encode()).hexdigest()
    flags = [
        f"--remove-denied-after={REMOVED_AFTER}s",
        "--enabled-registration-drivers=csr,static-token",
        "--feature-gates=ManagedClusterAgentRestriction=true",
        f"--driver-option=static-token.accepted-digest={digest}",
    ]
    hub = Hub(ground.extra("hub2"), ground.directory / "second", (*AUTO, *flags), plugin, hub_link)
    hub.install()
    hub.start()
    yield hub
    hub.stop()
    # Nor is anything here, but that webhooks had nobody to ask while their hub was cut off.
    assert [line for line in complaints(hub.process.log) if "Unreachable" not in line] == []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    fleet = getattr(item, "funcargs", {}).get("whole_fleet")
    if report.failed and isinstance(fleet, Fleet):
        for process in (fleet.hub.process, *(agent.process for agent in fleet.agents)):
            report.sections.append((process.name, tail(process.log, 15)))
