"""`clusteradm unjoin`: a cluster leaves whole, the hub is told, and what is left is said."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from muster.api.crds import HUB as HUB_KINDS
from muster.api.crds import SPOKE, definitions
from muster.machinery.clock import SYSTEM
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR
from muster.operator.klusterlet.controller import KlusterletOperator, KlusterletOptions
from muster.operator.klusterlet.removal import APPLIED_WORKS
from muster.operator.names import KLUSTERLETS, OPERATOR_NAMESPACE
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from muster.runtime.install import await_definitions
from tests.support.operating import Observed, running
from tests.support.processes import free_ports
from tests.unit.cli.clusteradm.conftest import FRESH, HUB, PLAIN, Fleet
from tests.unit.cli.clusteradm.joining import Joining

KLUSTERLET_CRD = "klusterlets.operator.open-cluster-management.io"


async def unjoin(joining: Joining, *flags: str, name: str = "cluster1") -> str:
    return await joining.fleet.ok("unjoin", "--cluster-name", name, *flags, context=PLAIN)


async def refused(joining: Joining, *flags: str, name: str = "cluster1") -> str:
    return await joining.fleet.fails("unjoin", "--cluster-name", name, *flags, context=PLAIN)


@asynccontextmanager
async def operator(fleet: Fleet) -> AsyncIterator[None]:
    """A real one, whose Deployment is said to be available."""
    seen = Observed(fleet.admin(PLAIN))
    await seen.set_available("klusterlet", OPERATOR_NAMESPACE)
    async with running(KlusterletOperator(fleet.admin(PLAIN), KlusterletOptions()).manager.run()):
        await seen.until_condition(KLUSTERLETS, "klusterlet", "Applied", "True")
        yield


async def accepted(fleet: Fleet) -> bool:
    return bool((await fleet.admin().get(MANAGED_CLUSTERS, "cluster1"))["spec"]["hubAcceptsClient"])


async def apply_work(fleet: Fleet, agent: str, cluster: str = PLAIN) -> None:
    """As the work agent of a Klusterlet would."""
    for definition in definitions(SPOKE):
        await fleet.admin(cluster).apply(CRDS, definition, manager="test")
    spec = {"hubHash": "0123", "agentID": agent, "manifestWorkName": "web"}
    work = {"metadata": {"name": "0123-web"}, "spec": spec}
    await fleet.until(lambda: _served(fleet, cluster))
    await fleet.admin(cluster).apply(APPLIED_WORKS, work, manager="test")


async def _served(fleet: Fleet, cluster: str) -> bool:
    found = await fleet.admin(cluster).get(CRDS, "appliedmanifestworks.work.open-cluster-management.io")
    return any(one["type"] == "Established" for one in (found.get("status") or {}).get("conditions") or ())


async def test_a_cluster_leaves_whole_and_the_hub_is_told(joining: Joining) -> None:
    fleet = joining.fleet
    await joining.ok()
    await joining.enter()
    async with operator(fleet):
        said = await unjoin(joining)
    assert "The hub was told that cluster1 leaves" in said
    assert "Cluster cluster1 has left its hub." in said
    assert "left: ManagedCluster cluster1 stays on the hub, denied; an administrator of the hub removes it with" in said
    assert not await accepted(fleet)
    for resource, name in (
        (CRDS, KLUSTERLET_CRD),
        (NAMESPACES, AGENT_NAMESPACE),
        (NAMESPACES, OPERATOR_NAMESPACE),
        (CLUSTER_ROLES, KLUSTERLET_OPERATOR.name),
        (CLUSTER_ROLE_BINDINGS, KLUSTERLET_OPERATOR.name),
    ):
        assert await fleet.find(resource, name, "", PLAIN) is None, name


async def test_leaving_again_changes_nothing(joining: Joining) -> None:
    await joining.ok()
    await unjoin(joining)
    before = await joining.fleet.revision(PLAIN)
    assert "nothing was changed" in await unjoin(joining)
    assert await joining.fleet.revision(PLAIN) == before


async def test_an_administrator_of_the_hub_has_it_cleaned_up_there_too(joining: Joining) -> None:
    await joining.ok()
    await joining.enter()
    said = await unjoin(joining, "--hub-kubeconfig", str(joining.fleet.kubeconfig), "--hub-context", HUB)
    assert "ManagedCluster cluster1 is deleted on the hub" in said
    assert "left:" not in said
    assert await joining.fleet.find(MANAGED_CLUSTERS, "cluster1") is None


async def test_a_hub_leaves_itself_and_is_a_hub_still(joining: Joining) -> None:
    fleet, own = joining.fleet, replace(joining, cluster=HUB)
    await own.ok()
    await own.enter()
    assert "would delete managedclusters" in await fleet.ok("unjoin", "--cluster-name", "cluster1", "--dry-run")
    said = await fleet.ok("unjoin", "--cluster-name", "cluster1")
    assert "ManagedCluster cluster1 is deleted on the hub" in said
    assert "left:" not in said
    assert await fleet.find(MANAGED_CLUSTERS, "cluster1") is None
    assert await fleet.find(CRDS, KLUSTERLET_CRD, "") is None
    assert await fleet.find(CRDS, "managedclusters.cluster.open-cluster-management.io", "")


async def test_a_hub_that_leaves_another_keeps_its_own_cluster_of_that_name(joining: Joining) -> None:
    await joining.ok()
    await joining.enter()
    fleet = joining.fleet
    here = fleet.admin(PLAIN)
    await here.apply(CRDS, definitions([HUB_KINDS[0]])[0], manager="test")
    await await_definitions(here, [HUB_KINDS[0].name], SYSTEM)
    await here.apply(MANAGED_CLUSTERS, {"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": True}}, manager="test")
    assert "denied from now on" in await unjoin(joining)
    assert (await here.get(MANAGED_CLUSTERS, "cluster1"))["spec"]["hubAcceptsClient"]
    assert not await accepted(fleet)


async def test_the_next_operator_need_not_wait_for_the_last_ones_lease(joining: Joining) -> None:
    await joining.ok()
    await Observed(joining.fleet.admin(PLAIN)).surround(CLUSTER_MANAGER_OPERATOR)
    lock = {"metadata": {"name": "klusterlet-lock", "namespace": OPERATOR_NAMESPACE}, "spec": {"holderIdentity": "gone"}}
    await joining.fleet.admin(PLAIN).apply(LEASES, lock, manager="test")
    await unjoin(joining)
    assert await joining.fleet.find(NAMESPACES, OPERATOR_NAMESPACE, "", PLAIN)
    assert await joining.fleet.find(LEASES, "klusterlet-lock", OPERATOR_NAMESPACE, PLAIN) is None


async def test_a_hub_that_does_not_finish_is_waited_for_while_the_agents_are_there(joining: Joining) -> None:
    await joining.ok()
    await joining.enter()
    await joining.fleet.admin().patch(MANAGED_CLUSTERS, "cluster1", {"metadata": {"finalizers": ["example.com/held"]}})
    hub = ["--hub-context", HUB, "--timeout", "1"]
    assert "the hub's controller has not begun to remove it" in await refused(joining, *hub)
    assert await joining.klusterlet()
    said = await unjoin(joining, *hub, "--force")
    assert "left: ManagedCluster cluster1 is still being deleted on the hub" in said
    assert await joining.fleet.find(CRDS, KLUSTERLET_CRD, "", PLAIN) is None


async def test_a_hub_that_is_away_keeps_nobody_and_what_is_left_is_said(joining: Joining) -> None:
    await joining.ok()
    await joining.enter()
    (port,) = free_ports(1)
    kubeconfig = (await joining.secret("hub-kubeconfig-secret"))["kubeconfig"].replace(joining.server, f"https://127.0.0.1:{port}")
    data = {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()}
    await joining.fleet.admin(PLAIN).patch(SECRETS, "hub-kubeconfig-secret", {"data": data}, AGENT_NAMESPACE)
    said = await unjoin(joining)
    assert "left: the hub could not be told: https://127.0.0.1" in said
    assert "kubectl delete managedcluster cluster1" in said
    assert await joining.fleet.find(CRDS, KLUSTERLET_CRD, "", PLAIN) is None


async def test_a_credential_that_only_the_agents_can_use_is_left_to_them(joining: Joining) -> None:
    await joining.ok()
    await joining.enter()
    kubeconfig = yaml.safe_load((await joining.secret("hub-kubeconfig-secret"))["kubeconfig"])
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never"}
    kubeconfig["users"][0]["user"] = {"exec": plugin}
    data = {"kubeconfig": base64.b64encode(yaml.safe_dump(kubeconfig).encode()).decode()}
    await joining.fleet.admin(PLAIN).patch(SECRETS, "hub-kubeconfig-secret", {"data": data}, AGENT_NAMESPACE)
    assert "left: the agents' credential is of use to them alone" in await unjoin(joining)
    assert await accepted(joining.fleet)


async def test_a_cluster_that_never_got_in_leaves_and_says_what_may_be_left(joining: Joining) -> None:
    await joining.ok()
    assert "left: the agents have no credential for the hub; if ManagedCluster cluster1 is on the hub" in await unjoin(joining)
    assert await joining.fleet.find(NAMESPACES, AGENT_NAMESPACE, "", PLAIN) is None


async def test_with_resources_of_the_hubs_there_it_refuses_with_1(joining: Joining) -> None:
    fleet = joining.fleet
    await joining.ok()
    await joining.enter()
    await apply_work(fleet, (await joining.klusterlet())["metadata"]["uid"])
    complaint = await refused(joining)
    assert "AppliedManifestWorks 0123-web" in complaint
    assert "delete the works on the hub first" in complaint
    assert await joining.klusterlet()
    assert await accepted(fleet), "the hub was not told either"
    result = await fleet.run("unjoin", "--cluster-name", "cluster1", "--force", context=PLAIN)
    assert result.exit_code == 0, result.output
    assert "they are left where they are" in result.stderr
    assert await fleet.find(APPLIED_WORKS, "0123-web", "", PLAIN)


async def test_the_right_klusterlet_goes_and_the_operator_with_the_last_one(joining: Joining, tmp_path: Path) -> None:
    fleet = joining.fleet
    file = tmp_path / "managed"
    file.write_text(yaml.safe_dump(yaml.safe_load(fleet.kubeconfig.read_text()) | {"current-context": FRESH}))
    await joining.ok()
    await joining.ok("--mode", "hosted", "--managed-cluster-kubeconfig", str(file), name="cluster2")
    hosted = next(
        one["metadata"] for one in (await fleet.admin(PLAIN).list(KLUSTERLETS)).items if one["spec"]["clusterName"] == "cluster2"
    )
    await apply_work(fleet, hosted["uid"], FRESH)
    assert "AppliedManifestWorks 0123-web" in await refused(joining, name="cluster2"), "it looks where the cluster is"
    await fleet.admin(FRESH).delete(APPLIED_WORKS, "0123-web")
    await unjoin(joining, name="cluster2")
    assert await joining.klusterlet()
    assert await fleet.find(KLUSTERLETS, hosted["name"], "", PLAIN) is None
    assert await fleet.find(NAMESPACES, hosted["name"], "", PLAIN) is None
    assert await fleet.find(DEPLOYMENTS, "klusterlet", OPERATOR_NAMESPACE, PLAIN)
    await unjoin(joining)
    assert await fleet.find(DEPLOYMENTS, "klusterlet", OPERATOR_NAMESPACE, PLAIN) is None


async def test_a_hosted_cluster_that_cannot_be_seen_is_not_left_blindly(joining: Joining, tmp_path: Path) -> None:
    file = tmp_path / "managed"
    file.write_text(yaml.safe_dump(yaml.safe_load(joining.fleet.kubeconfig.read_text()) | {"current-context": FRESH}))
    await joining.ok("--mode", "hosted", "--managed-cluster-kubeconfig", str(file))
    (hosted,) = (await joining.fleet.admin(PLAIN).list(KLUSTERLETS)).items
    await joining.fleet.admin(PLAIN).delete(SECRETS, "external-managed-kubeconfig", hosted["metadata"]["name"])
    assert "cannot see what the hub has applied" in await refused(joining)
    await unjoin(joining, "--force")


async def test_a_klusterlet_without_a_name_is_known_by_what_its_agents_chose(joining: Joining) -> None:
    await joining.ok()
    await joining.enter()
    await joining.fleet.admin(PLAIN).patch(KLUSTERLETS, "klusterlet", {"spec": {"clusterName": None}})
    await unjoin(joining)
    assert not await accepted(joining.fleet)


async def test_another_name_is_refused_and_the_right_one_told(joining: Joining) -> None:
    await joining.ok()
    before = await joining.fleet.revision(PLAIN)
    assert "no Klusterlet here is of other; there are those of cluster1" in await refused(joining, name="other")
    assert "--cluster-name: name is missing" in await joining.fleet.fails("unjoin", context=PLAIN)
    assert await joining.fleet.revision(PLAIN) == before


async def test_the_operator_may_stay_and_a_namespace_with_a_hub_in_it_does(joining: Joining) -> None:
    fleet = joining.fleet
    await joining.ok()
    await unjoin(joining, "--purge-operator=false")
    assert await fleet.find(DEPLOYMENTS, "klusterlet", OPERATOR_NAMESPACE, PLAIN)
    await Observed(fleet.admin(PLAIN)).surround(CLUSTER_MANAGER_OPERATOR)
    await unjoin(joining)
    assert await fleet.find(DEPLOYMENTS, "klusterlet", OPERATOR_NAMESPACE, PLAIN) is None
    assert await fleet.find(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE, PLAIN)
    assert await fleet.find(SERVICE_ACCOUNTS, "cluster-manager", OPERATOR_NAMESPACE, PLAIN)


async def test_a_dry_run_writes_nothing_on_either_side(joining: Joining) -> None:
    fleet = joining.fleet
    await joining.ok()
    await joining.enter()
    before = await fleet.revision(PLAIN), await fleet.revision(HUB)
    said = await unjoin(joining, "--dry-run")
    assert "would update managedclusters.cluster.open-cluster-management.io cluster1" in said
    assert "would delete klusterlets.operator.open-cluster-management.io klusterlet" in said
    assert f"would delete deployments.apps {OPERATOR_NAMESPACE}/klusterlet" in said
    said = await unjoin(joining, "--dry-run", "--hub-context", HUB)
    assert "would delete managedclusters.cluster.open-cluster-management.io cluster1" in said
    assert (await fleet.revision(PLAIN), await fleet.revision(HUB)) == before


async def test_waiting_says_what_for_and_ends_with_1(joining: Joining) -> None:
    await joining.ok()
    await joining.fleet.admin(PLAIN).patch(KLUSTERLETS, "klusterlet", {"metadata": {"finalizers": ["example.com/held"]}})
    complaint = await refused(joining, "--timeout", "1")
    assert "its operator does not work: Deployment open-cluster-management/klusterlet" in complaint
    await Observed(joining.fleet.admin(PLAIN)).set_available("klusterlet", OPERATOR_NAMESPACE)
    waiting = asyncio.create_task(unjoin(joining))
    await joining.fleet.admin(PLAIN).patch(KLUSTERLETS, "klusterlet", {"metadata": {"finalizers": None}})
    assert "has left its hub" in await waiting


async def test_missing_permission_is_told(joining: Joining) -> None:
    await joining.ok()
    assert "forbidden" in await joining.fleet.fails("unjoin", "--cluster-name", "cluster1", context="mallory@plain")


async def test_what_is_done_is_also_written_to_a_file(joining: Joining, tmp_path: Path) -> None:
    file = tmp_path / "done"
    file.write_text("x" * 10_000)
    await joining.ok()
    await unjoin(joining, "--output-file", str(file))
    lines = file.read_text().splitlines()
    assert lines[0] == "delete klusterlets.operator.open-cluster-management.io klusterlet"
