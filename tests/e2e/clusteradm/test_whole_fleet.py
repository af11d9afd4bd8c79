"""From nothing to a managed cluster and back by `clusteradm` alone, on clusters whose nodes run the pods. Nobody is played."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.cli.clusteradm import main
from muster.machinery.objects import GVR
from muster.operator.names import KLUSTERLETS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, CRDS, NAMESPACES, ROLE_BINDINGS
from muster.work.kinds import APPLIED_WORKS
from tests.support.operating import Observed
from tests.support.sites import Site as Ground
from tests.support.sites import embedded_only, open_sites
from tests.support.stage import PODS

pytestmark = pytest.mark.timeout(400)
SECONDS = 90
LASTING = (NAMESPACES, CRDS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


@dataclass
class Site:
    ground: Ground

    @property
    def kubeconfig(self) -> Path:
        return self.ground.kubeconfig

    @property
    def seen(self) -> Observed:
        return Observed(self.ground.admin)

    async def run(self, *words: str) -> Result:
        """In a thread: the command has a loop of its own, and talks to the server in ours."""
        line = ["--kubeconfig", str(self.kubeconfig), "--timeout", str(SECONDS), *words]
        return await asyncio.to_thread(CliRunner().invoke, main, line)

    async def __call__(self, *words: str) -> str:
        done = await self.run(*words)
        assert done.exit_code == 0, f"{words}: {done.output}"
        return done.stdout

    async def names(self, resource: GVR) -> set[str]:
        return {one["metadata"]["name"] for one in (await self.ground.admin.list(resource)).items}


@dataclass
class Fleet:
    hub: Site
    cluster: Site
    far: Site

    def manifest(self) -> str:
        """A file with a manifest for works."""
        file = self.hub.kubeconfig.parent / "hello.yaml"
        file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello, namespace: default}\n")
        return str(file)

    async def join_words(self) -> list[str]:
        """As the hub prints them."""
        told = json.loads(await self.hub("get", "token", "-o", "json"))
        return ["join", *(word for key, value in told.items() for word in (f"--{key}", value))]


@pytest.fixture
async def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    async with open_sites(tmp_path, "hub", "cluster", "far") as grounds:
        yield Fleet(*map(Site, grounds))


async def test_a_cluster_joins_lives_and_leaves_by_the_words_that_were_printed(fleet: Fleet) -> None:
    hub, cluster = fleet.hub, fleet.cluster
    before = {resource: await cluster.names(resource) for resource in LASTING}
    said = await hub("init", "--wait")
    command = next(line for line in said.splitlines() if " join " in line).replace("<cluster_name>", "cluster1")
    said = await cluster(*shlex.split(command)[1:])
    assert "is known to the hub" in said, "init --wait prints join with --wait"
    accept = next(line for line in said.splitlines() if " accept " in line)
    assert "has joined the Hub successfully" in await hub(*shlex.split(accept)[1:], "--wait")
    await hub.seen.until_condition(MANAGED_CLUSTERS, "cluster1", "ManagedClusterConditionAvailable", "True", seconds=SECONDS)
    await cluster(*await fleet.join_words(), "--cluster-name", "cluster1", "--wait")
    done = await fleet.far.run(*await fleet.join_words(), "--cluster-name", "cluster1")
    assert done.exit_code == 1
    assert "cluster1 has joined the hub and is alive" in done.stderr

    await hub("create", "work", "hello", "-f", fleet.manifest(), "--clusters", "cluster1", "--wait")
    assert await cluster.seen.find(CONFIG_MAPS, "hello", "default")
    refused = await cluster.run("unjoin", "--cluster-name", "cluster1")
    assert refused.exit_code == 1
    assert "delete the works on the hub first" in refused.stderr
    await hub("delete", "work", "hello", "--clusters", "cluster1", "--wait")
    assert await cluster.seen.find(CONFIG_MAPS, "hello", "default") is None

    said = await cluster("unjoin", "--cluster-name", "cluster1")
    assert "The hub was told that cluster1 leaves" in said
    await hub.seen.until_condition(
        MANAGED_CLUSTERS, "cluster1", "HubAcceptedManagedCluster", "False", "HubClusterAdminDenied", seconds=SECONDS
    )
    assert not [one for one in await hub.names(ROLE_BINDINGS) if "cluster1" in one]
    assert {resource: await cluster.names(resource) for resource in LASTING} == before
    assert not await cluster.names(PODS)
    assert "nothing was changed" in await cluster("unjoin", "--cluster-name", "cluster1")


@embedded_only
async def test_an_administrator_of_both_sides_leaves_nothing_on_the_hub(fleet: Fleet) -> None:
    hub, cluster = fleet.hub, fleet.cluster
    await hub("init", "--wait")
    await cluster(*await fleet.join_words(), "--cluster-name", "cluster1", "--singleton", "--wait")
    await hub("accept", "--clusters", "cluster1", "--wait")
    await hub("create", "work", "hello", "-f", fleet.manifest(), "--clusters", "cluster1", "--wait")
    done = await cluster.run("unjoin", "--cluster-name", "cluster1", "--force", "--hub-kubeconfig", str(hub.kubeconfig))
    assert done.exit_code == 0, done.output
    assert "they go with the works" in done.stderr
    said = done.stdout
    assert "ManagedCluster cluster1 is deleted on the hub" in said
    assert "left:" not in said
    assert await hub.seen.find(MANAGED_CLUSTERS, "cluster1") is None
    assert await cluster.seen.find(CONFIG_MAPS, "hello", "default") is None
    assert await cluster.seen.find(CRDS, f"{APPLIED_WORKS.plural}.{APPLIED_WORKS.group}") is None


@embedded_only
async def test_a_hosted_cluster_is_managed_from_elsewhere_and_leaves_nothing_on_either(fleet: Fleet) -> None:
    hub, cluster, far = fleet.hub, fleet.cluster, fleet.far
    before = {site.kubeconfig: await site.names(NAMESPACES) for site in (cluster, far)}
    await hub("init", "--wait")
    words = ["--mode", "hosted", "--managed-cluster-kubeconfig", str(far.kubeconfig), "--wait"]
    await cluster(*await fleet.join_words(), "--cluster-name", "cluster1", *words)
    await hub("accept", "--clusters", "cluster1", "--wait")
    assert not await far.names(PODS), "its agents are elsewhere"
    await hub("create", "work", "hello", "-f", fleet.manifest(), "--clusters", "cluster1", "--wait")
    assert await far.seen.find(CONFIG_MAPS, "hello", "default")
    await hub("delete", "work", "hello", "--clusters", "cluster1", "--wait")
    await cluster("unjoin", "--cluster-name", "cluster1")
    assert await cluster.seen.find(CRDS, f"{KLUSTERLETS.plural}.{KLUSTERLETS.group}") is None
    assert {site.kubeconfig: await site.names(NAMESPACES) for site in (cluster, far)} == before
