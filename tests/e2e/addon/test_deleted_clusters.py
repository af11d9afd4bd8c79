"""A cluster that is deleted while its addon has a hook: it ends, whether its agents are there or not (A10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site, config_map, work_agent
from tests.e2e.addon.test_template_addons import finish_hook, hook, hook_path
from tests.support.administrator import AVAILABLE
from tests.support.processes import Server
from tests.support.registration import Agent


@dataclass
class Member:
    """Another managed cluster, with an addon that has a hook."""

    agent: Agent
    works: Server
    addon: str

    @property
    def name(self) -> str:
        return self.agent.name

    def kill(self) -> None:
        for process in (self.agent.process, self.works):
            process.stop(kill=True)


@pytest.fixture
def member(site: Site) -> Iterator[Member]:
    agent = Agent(site.spoke, site.hub, site.name("leaving"), site.hub.trusted_kubeconfig()).start()
    site.hub.wait_condition(agent.name, AVAILABLE)
    works = work_agent(agent)
    site.hub.servers.append(works)
    works.start()
    addon = site.name()
    site.offer(addon, site.template(addon, config_map(addon), hook(addon)))
    site.enable(addon, agent.name)
    site.wait_on_cluster(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{addon}")
    site.wait(addon, "ManifestApplied", cluster=agent.name)
    yield Member(agent, works, addon)
    works.stop(timeout=10)
    site.hub.servers.remove(works)
    agent.stop()


def test_a_cluster_that_answers_runs_the_hook_and_is_gone_then(site: Site, member: Member) -> None:
    site.hub.delete(member.name)
    site.wait_on_cluster(hook_path(member.addon))
    assert site.hub.find(member.name) is not None, "its hook is waited for"
    finish_hook(site, member.addon)
    site.hub.wait_gone(member.name, 60)
    assert site.find(member.addon, member.name) is None
    assert site.works(member.addon, member.name) == []
    maps = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{member.addon}"
    site.hub.wait(lambda: site.on_cluster(maps) is None, "the addon's ConfigMap to be gone", 60)


def test_a_cluster_whose_agents_are_gone_is_not_held_by_a_hook_that_nobody_runs(site: Site, member: Member) -> None:
    site.hub.patch(member.name, {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    member.kill()
    site.hub.delete(member.name)
    site.hub.wait(lambda: site.find(member.addon, member.name) is None, "the addon to be gone", 60)
    # What is left are its works, as those of any cluster whose agents are gone; who knows that they stay away lets them go.
    site.hub.wait_condition(member.name, "Deleting", "False", "ResourceRemaining")
    site.let_works_go(member.addon, member.name)
    site.hub.wait_gone(member.name, 60)
    assert site.works(member.addon, member.name) == []
    assert site.on_cluster(hook_path(member.addon)) is None
    site.spoke.admin.delete(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{member.addon}")
