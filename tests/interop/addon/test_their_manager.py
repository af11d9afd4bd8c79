"""Upstream's addon manager and controller of replica sets: they follow our placements, and our agents serve them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.addon.conftest import config_map
from tests.interop.addon.addon_site import AddonSite
from tests.interop.addon.conftest import our_agents
from tests.interop.addon.programs import MANAGER_ACCOUNT, grant
from tests.interop.addon.scenes import SHORT_LIVED, installed_by_a_placement, labelled, replica_set_follows, with_role
from tests.support.administrator import HUB_NAMESPACE, RBAC


def handed_out(site: AddonSite, role: str) -> str:
    """A role that upstream's manager may hand out, because it has it."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    site.admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules}).expect(201)
    grant(site.admin, role, {"namespace": HUB_NAMESPACE, "name": MANAGER_ACCOUNT}, role)
    return role


@pytest.mark.timeout(240)
def test_an_addon_is_installed_by_our_decisions_and_served_by_our_agents(theirs: AddonSite) -> None:
    addon = theirs.name("theirs")
    installed_by_a_placement(theirs, addon, with_role(handed_out(theirs, addon)))


@pytest.mark.timeout(240)
def test_our_agent_keeps_a_token_that_upstreams_manager_prepares(theirs: AddonSite, tmp_path: Path) -> None:
    addon = theirs.name("token")
    theirs.offer(addon, theirs.template(addon, config_map(addon), registration=with_role(handed_out(theirs, addon))))
    with our_agents(theirs.hub, theirs.spoke.cluster, tmp_path, "python-token", *SHORT_LIVED) as site:
        site.enable(addon)
        secret = site.wait_secret(f"{addon}-hub-kubeconfig")
        assert {"kubeconfig", "token", "cluster-name"} <= secret.keys()
        maps = f"/api/v1/namespaces/{site.cluster}/configmaps"
        agent = site.addon_client(secret)
        site.hub.wait_reply(lambda: agent.get(maps), "the agent to read what its role allows", 200, timeout=60)
        for kind in ("TokenInfrastructureReady", "TokenRefreshed", "RegistrationApplied", "ManifestApplied"):
            site.wait(addon, kind)
        site.disable(addon)
        site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
        site.hub.wait(lambda: not site.secret(f"{addon}-hub-kubeconfig"), "its token to be gone", 60)


@pytest.mark.timeout(180)
def test_their_replica_sets_follow_our_decisions(theirs: AddonSite) -> None:
    labelled(theirs, "replicas")
    replica_set_follows(theirs, "their-set", theirs.place("their-set", {"part": "replicas"}))
