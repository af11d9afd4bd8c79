"""`init` of a hub whose clusters register by AWS: what is taken from the kubeconfig, what is made beside, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.operator.names import CLUSTER_MANAGERS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.unit.cli.clusteradm.conftest import FRESH, HUB, Fleet

ARN = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
BY_AWS = ("init", "--registration-drivers=aws-irsa", "--force")


def renamed(kubeconfig: Path, context: str, cluster: str) -> None:
    """As `aws eks update-kubeconfig` calls it."""
    document = yaml.safe_load(kubeconfig.read_text())
    [entry] = [one["context"] for one in document["contexts"] if one["name"] == context]
    [known] = [one for one in document["clusters"] if one["name"] == entry["cluster"]]
    document["clusters"].append({**known, "name": cluster})
    entry["cluster"] = cluster
    kubeconfig.write_text(yaml.safe_dump(document))


async def driver(fleet: Fleet, cluster: str = FRESH) -> Any:
    found = await fleet.admin(cluster).get(CLUSTER_MANAGERS, "cluster-manager")
    return found["spec"]["registrationConfiguration"]["registrationDrivers"]


async def test_the_arn_is_that_of_the_context_that_was_chosen(fleet: Fleet) -> None:
    renamed(fleet.kubeconfig, FRESH, ARN)
    await fleet.ok(*BY_AWS, "--aws-mapping=aws-auth", "--aws-identity=hub", context=FRESH)
    wanted = {"hubClusterArn": ARN, "mapping": "aws-auth", "identity": "hub"}
    assert await driver(fleet) == [{"authType": "awsirsa", "awsirsa": wanted}]
    assert (await fleet.admin(FRESH).get(CONFIG_MAPS, "aws-auth", "kube-system"))["metadata"]["name"] == "aws-auth"
    other = ARN.replace("hub-0", "hub-1")
    await fleet.ok(*BY_AWS, f"--hub-cluster-arn={other}", context=FRESH)
    assert (await driver(fleet))[0]["awsirsa"]["hubClusterArn"] == other


async def test_an_aws_auth_that_is_there_is_left_alone(fleet: Fleet) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aws-auth", "namespace": "kube-system"}}
    await fleet.admin(FRESH).create(CONFIG_MAPS, {**body, "data": {"mapRoles": "- rolearn: x\n"}})
    await fleet.ok(*BY_AWS, f"--hub-cluster-arn={ARN}", context=FRESH)
    assert (await fleet.admin(FRESH).get(CONFIG_MAPS, "aws-auth", "kube-system"))["data"] == {"mapRoles": "- rolearn: x\n"}


async def test_without_patterns_nobody_gets_in_by_itself_and_that_is_said(fleet: Fleet) -> None:
    flags = (*BY_AWS, f"--hub-cluster-arn={ARN}", "--feature-gates=ManagedClusterAutoApproval=true")
    assert "accepts no cluster by itself" in (await fleet.run(*flags, context=FRESH)).stderr
    assert "accepts no cluster" not in (await fleet.run(*flags, "--auto-approved-arn-patterns=.*", context=FRESH)).stderr


@pytest.mark.parametrize(("text", "is_good"), [("72h", True), ("1h30m", True), ("3 days", False), ("h", False)])
async def test_when_denied_clusters_go(fleet: Fleet, text: str, is_good: bool) -> None:
    flags = ("init", "--force", f"--remove-denied-after={text}")
    if not is_good:
        assert "--remove-denied-after" in await fleet.fails(*flags, context=FRESH, code=2)
        return
    await fleet.ok(*flags, context=FRESH)
    found = await fleet.admin(FRESH).get(CLUSTER_MANAGERS, "cluster-manager")
    assert found["spec"]["registrationConfiguration"]["removeDeniedAfter"] == text


async def test_a_driver_in_use_is_not_dropped_without_force(fleet: Fleet) -> None:
    await fleet.ok("init", "--registration-drivers=csr,awsirsa", f"--hub-cluster-arn={ARN}", "--force", context=HUB)
    marks = {"eks-managed-cluster-arn": ARN.replace("hub-0", "managed-0")}
    await fleet.cluster("cluster1", metadata={"annotations": marks})
    drop = ("init", "--registration-drivers=csr")
    await fleet.ok(*drop, context=HUB)
    await fleet.ok("init", "--registration-drivers=csr,awsirsa", f"--hub-cluster-arn={ARN}", "--force", context=HUB)
    await fleet.admin().patch(MANAGED_CLUSTERS, "cluster1", {"spec": {"hubAcceptsClient": True}})
    complaint = await fleet.fails(*drop, context=HUB)
    assert "awsirsa: cluster1" in complaint
    assert len(await driver(fleet, HUB)) == 2
    await fleet.ok(*drop, "--force", context=HUB)


async def test_a_hub_with_several_drivers_prints_a_command_for_each(fleet: Fleet) -> None:
    drivers = "--registration-drivers=awsirsa,csr,grpc"
    said = await fleet.ok("init", drivers, f"--hub-cluster-arn={ARN}", "--grpc-server=hub.example:443", "--force", context=FRESH)
    commands = [line.strip() for line in said.splitlines() if line.startswith("    clusteradm join")]
    [by_csr, by_aws, by_grpc] = commands
    assert "--registration-auth" not in by_csr
    assert f"--registration-auth awsirsa --hub-cluster-arn {ARN}" in by_aws
    assert "--registration-auth grpc" in by_grpc
    assert "or, for a cluster that registers by awsirsa:" in said
    assert "or, from where only the hub's gRPC server can be reached:" in said
    told = await fleet.ok("get", "token", context=FRESH)
    assert len([line for line in told.splitlines() if line.startswith("clusteradm join")]) == 3


async def test_a_hub_with_this_driver_alone_prints_its_command_alone(fleet: Fleet) -> None:
    said = await fleet.ok(*BY_AWS, f"--hub-cluster-arn={ARN}", context=FRESH)
    assert said.count("clusteradm join") == 1
    assert "--registration-auth awsirsa" in said


async def test_whoever_looks_sees_what_clusters_and_hub_are_called_on_aws(fleet: Fleet) -> None:
    await fleet.ok("init", "--registration-drivers=csr,awsirsa", f"--hub-cluster-arn={ARN}", "--force")
    managed = ARN.replace("hub-0", "managed-0")
    await fleet.cluster("by-aws", metadata={"annotations": {"eks-managed-cluster-arn": managed}})
    await fleet.cluster("by-csr")
    await fleet.cluster("by-whom", metadata={"annotations": {"agent.open-cluster-management.io/registration-driver": "nobody"}})
    head, *rows = (await fleet.ok("get", "clusters", "-o", "wide")).splitlines()
    assert head.split()[-2:] == ["DRIVER", "IDENTITY"]
    shown = [row.split() for row in rows]
    assert [row[-2:] if "aws" in row[0] else row[-1:] for row in shown] == [["awsirsa", managed], ["csr"], ["<unknown>"]]
    said = await fleet.ok("get", "hub-info")
    assert f"<awsirsa> {ARN}" in said
    assert "<csr> enabled" in said
