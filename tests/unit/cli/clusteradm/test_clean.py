"""`clusteradm clean` takes everything away, refuses while clusters are alive, and goes on where it stopped."""

from __future__ import annotations

import asyncio

import msgspec

from muster.administration.hub.clean import Cleaned, CleanOptions, clean
from muster.aws.arns import parse_cluster_arn
from muster.aws.role_names import RoleNames
from muster.operator.cluster_manager.controller import ClusterManagerOperator
from muster.operator.names import CLUSTER_MANAGERS, OPERATOR_NAMESPACE
from muster.operator.options import OperatorOptions
from muster.registration.drivers.awsirsa.aws_auth_edit import put_in, take_out
from muster.registration.drivers.awsirsa.aws_auth_map import mapped
from muster.registration.drivers.awsirsa.records import Mapping, Phase, Record, beginning, document
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from tests.support.operating import Observed, running
from tests.unit.cli.clusteradm.conftest import AVAILABLE, FRESH, Fleet, Told, condition

EVERYTHING = (
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    ROLE_BINDINGS,
    NAMESPACES,
    CRDS,
    SECRETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    SERVICES,
    SERVICE_ACCOUNTS,
)
DEFINITION = "clustermanagers.operator.open-cluster-management.io"


async def initialized(fleet: Fleet, context: str = FRESH) -> None:
    await fleet.ok("init", "--use-bootstrap-token", context=context)


async def names(fleet: Fleet) -> set[str]:
    """Of everything that could be left of a hub."""
    admin = fleet.admin(FRESH)
    found = set()
    for resource in EVERYTHING:
        found |= {f"{resource.plural}/{one['metadata']['name']}" for one in (await admin.list(resource)).items}
    return found


async def test_nothing_is_left_and_again_is_no_failure(fleet: Fleet) -> None:
    before = await names(fleet)
    await initialized(fleet)
    said = await fleet.ok("clean", context=FRESH)
    assert "removed: ClusterManager cluster-manager" in said
    assert "has been clean up successfully" in said
    assert await names(fleet) == before
    result = await fleet.run("clean", context=FRESH)
    assert result.exit_code == 0
    assert "hub has not been initialized" in result.stderr


async def test_nothing_is_left_of_a_hub_whose_agents_come_over_grpc(fleet: Fleet) -> None:
    before, seen = await names(fleet), Observed(fleet.admin(FRESH))
    await fleet.ok("init", "--registration-drivers=csr,grpc", "--grpc-server=hub.example:443", context=FRESH)
    await seen.set_available("cluster-manager", OPERATOR_NAMESPACE)
    async with running(ClusterManagerOperator(fleet.admin(FRESH), OperatorOptions()).manager.run()):
        await seen.until_condition(CLUSTER_MANAGERS, "cluster-manager", "Applied", "True")
        await fleet.ok("get", "token", "--cluster-name", "cluster1", context=FRESH)
        config = {"metadata": {"name": "grpc-server-config", "namespace": HUB_NAMESPACE}, "data": {"config.yaml": ""}}
        await seen.admin.create(CONFIG_MAPS, config)
        made = await names(fleet) - before
        assert {
            "deployments/cluster-manager-grpc-server",
            "services/cluster-manager-grpc-server",
            "secrets/signer-secret",
            "secrets/grpc-server-serving-cert",
            "serviceaccounts/grpc-server-sa",
            "serviceaccounts/agent-registration-bootstrap-cluster1",
        } <= made
        assert "removed: ClusterManager cluster-manager" in await fleet.ok("clean", context=FRESH)
    assert await names(fleet) == before


async def test_while_clusters_are_alive_it_is_refused_with_1(fleet: Fleet) -> None:
    await initialized(fleet, "hub")
    await fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    complaint = await fleet.fails("clean")
    assert "Please detach all managed clusters from the hub control plane: cluster1" in complaint
    assert "--force" in complaint
    assert await fleet.find(CLUSTER_MANAGERS, "cluster-manager")
    result = await fleet.run("clean", "--force")
    assert result.exit_code == 0, result.output
    assert "ManagedClusters are deleted with the hub: cluster1" in result.stderr


async def test_clusters_that_are_away_do_not_hold_it_up_and_are_named(fleet: Fleet) -> None:
    await initialized(fleet, "hub")
    gone = [*AVAILABLE[:2], condition("ManagedClusterConditionAvailable", "Unknown", "ManagedClusterLeaseUpdateStopped")]
    await fleet.cluster("cluster1", status={"conditions": gone})
    result = await fleet.run("clean")
    assert result.exit_code == 0, result.output
    assert "cluster1; agents that are still on them are not" in result.stderr


async def test_namespaces_of_clusters_stay_and_are_told(fleet: Fleet) -> None:
    await initialized(fleet)
    label = {"open-cluster-management.io/cluster-name": "cluster1"}
    await fleet.admin(FRESH).apply(NAMESPACES, {"metadata": {"name": "cluster1", "labels": label}}, manager="test")
    assert "left: Namespace cluster1: it may hold objects of users" in await fleet.ok("clean", context=FRESH)
    assert await fleet.find(NAMESPACES, "cluster1", "", FRESH)


async def test_the_operator_may_stay(fleet: Fleet) -> None:
    await initialized(fleet)
    await fleet.ok("clean", "--purge-operator=false", context=FRESH)
    assert await fleet.find(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE, FRESH)
    assert await fleet.find(CLUSTER_MANAGERS, "cluster-manager", "", FRESH) is None
    assert await fleet.find(CLUSTER_ROLES, "open-cluster-management:bootstrap", "", FRESH) is None


async def test_the_operators_namespace_stays_with_a_klusterlet_in_it(fleet: Fleet) -> None:
    await initialized(fleet)
    deployment = await fleet.admin(FRESH).get(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE)
    other = {"metadata": {"name": "klusterlet", "namespace": OPERATOR_NAMESPACE}, "spec": deployment["spec"]}
    await fleet.admin(FRESH).create(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", **other})
    assert "left: Namespace open-cluster-management: the operator of klusterlets" in await fleet.ok("clean", context=FRESH)
    assert await fleet.find(DEPLOYMENTS, "klusterlet", OPERATOR_NAMESPACE, FRESH)
    assert await fleet.find(CRDS, DEFINITION, "", FRESH) is None


async def test_a_cluster_info_of_others_stays(fleet: Fleet) -> None:
    theirs = {"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": {"kubeconfig": "theirs"}}
    await fleet.admin(FRESH).apply(CONFIG_MAPS, theirs, manager="kubeadm")
    await initialized(fleet)
    await fleet.ok("clean", context=FRESH)
    assert await fleet.find(CONFIG_MAPS, "cluster-info", "kube-public", FRESH)


async def test_a_dry_run_removes_nothing(fleet: Fleet) -> None:
    await initialized(fleet)
    before = await fleet.revision(FRESH)
    said = await fleet.ok("clean", "--dry-run", context=FRESH)
    assert "would delete clustermanagers.operator.open-cluster-management.io cluster-manager" in said
    assert "would delete namespaces open-cluster-management" in said
    assert await fleet.revision(FRESH) == before


async def test_missing_permission_leaves_everything(fleet: Fleet) -> None:
    await initialized(fleet)
    before = await fleet.revision(FRESH)
    assert "forbidden" in await fleet.fails("clean", context="mallory@fresh")
    assert await fleet.revision(FRESH) == before


async def test_waiting_for_the_operator_tells_what_holds_it_up_and_goes_on(fleet: Fleet) -> None:
    await initialized(fleet)
    admin, told = fleet.admin(FRESH), Told()
    await admin.patch(CLUSTER_MANAGERS, "cluster-manager", {"metadata": {"finalizers": ["example.io/hold"]}})
    cleaning = asyncio.create_task(clean(admin, CleanOptions(timeout=30), told))
    await fleet.until(lambda: told.heard("is not rolled out yet"))
    assert not cleaning.done()
    await admin.patch(CLUSTER_MANAGERS, "cluster-manager", {"metadata": {"finalizers": None}})
    result = await cleaning
    assert isinstance(result, Cleaned)
    assert "ClusterManager cluster-manager" in result.removed


async def test_it_ends_with_1_when_time_is_over(fleet: Fleet) -> None:
    await initialized(fleet)
    hold = {"metadata": {"finalizers": ["example.io/hold"]}}
    await fleet.admin(FRESH).patch(CLUSTER_MANAGERS, "cluster-manager", hold)
    assert "ClusterManager cluster-manager to be gone: not so after 1 s" in await fleet.fails(
        "clean", "--timeout", "1", context=FRESH
    )


# Identities on AWS, which the hub takes away before it goes

ARN = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"


async def on_record(fleet: Fleet, name: str, phase: Phase) -> Record:
    pair = RoleNames(parse_cluster_arn(ARN), parse_cluster_arn(f"arn:aws:eks:us-west-2:222222222222:cluster/{name}"))
    record = msgspec.structs.replace(beginning(pair, name, "uid", Mapping.AWS_AUTH), phase=phase)
    admin = fleet.admin(FRESH)
    await admin.apply(NAMESPACES, {"metadata": {"name": HUB_NAMESPACE}}, manager="test")
    await admin.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **document(record, HUB_NAMESPACE)})
    await put_in(admin, mapped(record))
    return record


async def aws_auth(fleet: Fleet) -> str:
    found = await fleet.admin(FRESH).get(CONFIG_MAPS, "aws-auth", "kube-system")
    return str((found.get("data") or {}).get("mapRoles") or "")


async def test_what_the_hub_revokes_is_waited_for_and_what_it_left_is_named(fleet: Fleet) -> None:
    await fleet.ok("init", "--registration-drivers=awsirsa", f"--hub-cluster-arn={ARN}", "--force", context=FRESH)
    revoked, left = await on_record(fleet, "revoked", Phase.REVOKING), await on_record(fleet, "left", Phase.LEFT)
    admin, told = fleet.admin(FRESH), Told()
    await admin.patch(CLUSTER_MANAGERS, "cluster-manager", {"metadata": {"finalizers": ["example.io/hold"]}})
    cleaning = asyncio.create_task(clean(admin, CleanOptions(timeout=30), told))
    await fleet.until(lambda: told.heard("AWS identities of revoked are being removed"))
    # As the hub does it, and then the operator.
    await take_out(admin, revoked.role_arn)
    await admin.delete(CONFIG_MAPS, revoked.role, HUB_NAMESPACE)
    heard = len(told.lines)
    await fleet.until(lambda: asyncio.sleep(0, any("AWS" not in line for line in told.lines[heard + 1 :])))
    await admin.delete(NAMESPACES, HUB_NAMESPACE)
    await admin.patch(CLUSTER_MANAGERS, "cluster-manager", {"metadata": {"finalizers": None}})
    kept = (await cleaning).kept
    account = "with an AWS identity of account 111111111111"
    assert f"role {left.role_arn} of cluster left: run aws cleanup --hub-cluster-arn {ARN} {account}" in kept
    assert not any(revoked.role in line for line in kept)
    assert left.role not in await aws_auth(fleet), "what an administrator of the hub may take away is taken"


async def test_records_of_a_hub_that_does_not_run_are_named_and_a_dry_run_leaves_all(fleet: Fleet) -> None:
    await fleet.ok("init", "--registration-drivers=awsirsa", f"--hub-cluster-arn={ARN}", "--force", context=FRESH)
    record = await on_record(fleet, "c0", Phase.GRANTED)
    before = await fleet.revision(FRESH)
    said = await fleet.ok("clean", "--dry-run", context=FRESH)
    assert "AWS identities of c0 are being removed" in said
    assert await fleet.revision(FRESH) == before
    said = await fleet.ok("clean", context=FRESH)
    assert f"left: role {record.role_arn} of cluster c0: run aws cleanup --hub-cluster-arn {ARN}" in said
    assert record.role not in await aws_auth(fleet)
