"""`clusteradm` on a cluster whose node runs the pods: what it installs comes to life, is upgraded, and goes away again.

On a real kube-apiserver the way to production (`test_readme_tour.py`) and `test_whole_fleet.py` show the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from muster.cli.clusteradm import main
from muster.machinery.objects import GVR, Object
from muster.operator.names import CLUSTER_MANAGERS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS, NAMESPACES
from tests.support.sites import Site, embedded_only, open_site
from tests.support.stage import PODS

SECONDS = 90


class Hub:
    def __init__(self, site: Site) -> None:
        self.site = site

    async def __call__(self, *words: str) -> str:
        """In a thread: the command has a loop of its own, and talks to the server in ours."""
        line = ["--kubeconfig", str(self.site.kubeconfig), "--timeout", str(SECONDS), *words]
        done = await asyncio.to_thread(CliRunner().invoke, main, line)
        assert done.exit_code == 0, f"{words}: {done.output}"
        return done.stdout

    async def names(self, resource: GVR) -> set[str]:
        return {one["metadata"]["name"] for one in (await self.site.admin.list(resource)).items}

    async def running(self) -> Any:
        return json.loads(await self("get", "hub-info", "-o", "json"))

    async def cluster(self, name: str) -> Object:
        document = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, "metadata": {"name": name}}
        return await self.site.admin.create(MANAGED_CLUSTERS, document)


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    async with open_site(tmp_path) as site:
        yield Hub(site)


@embedded_only
async def test_from_nothing_to_a_hub_and_back(hub: Hub) -> None:
    before = {resource: await hub.names(resource) for resource in (NAMESPACES, CRDS)}
    await hub("init", "--wait")
    found = await hub.running()
    assert found["problem"] == ""
    assert {one["name"] for one in found["components"]["Registration"]} == {
        "cluster-manager-registration-controller",
        "cluster-manager-registration-webhook",
    }
    assert [one["name"] for one in found["components"]["Work"]] == ["cluster-manager-work-webhook"]
    assert [one["name"] for one in found["components"]["Placement"]] == ["cluster-manager-placement-controller"]
    assert [one["name"] for one in found["components"]["AddOn Manager"]] == ["cluster-manager-addon-manager-controller"]
    await hub.cluster("cluster1")
    assert "<cluster1>" in await hub("get", "clusters")
    await hub("upgrade", "clustermanager", "--bundle-version=next", "--wait")
    images = {pod["spec"]["containers"][0]["image"] for pod in (await hub.site.admin.list(PODS)).items}
    assert "muster:next" in images
    wanted = {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in (await hub.site.admin.list(DEPLOYMENTS)).items}
    assert wanted == {"muster:next"}, "components too"
    assert (await hub.running())["problem"] == ""
    assert "removed: ClusterManager cluster-manager" in await hub("clean")
    assert {resource: await hub.names(resource) for resource in before} == before
    assert (await hub.site.admin.list(PODS)).items == []


@embedded_only
async def test_an_init_that_was_interrupted_is_finished_by_the_next(hub: Hub) -> None:
    await hub("init")
    await hub.site.admin.delete(CLUSTER_MANAGERS, "cluster-manager")
    await hub("init", "--wait")
    assert (await hub.running())["problem"] == ""
