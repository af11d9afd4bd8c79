"""Every option of `clusteradm aws`, and of `accept` for clusters that register by AWS: on a hub, and on a local AWS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.aws import policies
from muster.aws.arns import parse_cluster_arn
from muster.aws.role_names import CLUSTER_TAG, HUB_ARN_TAG, RoleNames
from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import World, open_world
from tests.support.administrator import MANAGED_CLUSTERS, managed_cluster
from tests.support.local_aws import REGION, Botocore, local_aws

HUB = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
MANAGED = "arn:aws:eks:us-west-2:222222222222:cluster/managed-0"
PAIR = RoleNames(parse_cluster_arn(HUB), parse_cluster_arn(MANAGED))
ISSUER = "oidc.example.com/id/1"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("aws")) as world:
        world.ok("init", "--registration-drivers", "csr,awsirsa", "--hub-cluster-arn", HUB, "--aws-identity", "hub")
        world.hub.install()
        world.hub.start()
        yield world


def subjects(role: dict[str, Any]) -> list[str]:
    return [one["Condition"]["StringEquals"][f"{ISSUER}:sub"] for one in role["AssumeRolePolicyDocument"]["Statement"]]


@shows("aws prerequisites hub", "--hub-cluster-arn", "--oidc-provider", "--namespace", "--aws-mapping", "--output")
def test_the_role_of_a_hub_is_printed(hub: World) -> None:
    line = ["aws", "prerequisites", "hub", "--hub-cluster-arn", HUB, "--oidc-provider", f"https://{ISSUER}"]
    role = json.loads(hub.ok(*line))
    assert role["Arn"] == "arn:aws:iam::111111111111:role/hub-0_managed-cluster-identity-creator"
    assert subjects(role) == ["system:serviceaccount:open-cluster-management-hub:registration-controller-sa"]
    elsewhere = json.loads(hub.ok(*line, "--namespace", "other", "--aws-mapping", "aws-auth"))
    assert subjects(elsewhere) == ["system:serviceaccount:other:registration-controller-sa"]
    assert "AccessEntry" in str(role["Policies"])
    assert "AccessEntry" not in str(elsewhere["Policies"])
    template = json.loads(hub.ok(*line, "--output", "cloudformation"))
    assert template["Resources"]["Role"]["Type"] == "AWS::IAM::Role"


@shows(
    "aws prerequisites managed",
    "--hub-cluster-arn",
    "--managed-cluster-arn",
    "--oidc-provider",
    "--klusterlet",
    "--namespace",
    "--mode",
    "--output",
)
def test_the_role_of_a_managed_cluster_is_printed(hub: World) -> None:
    line = ["aws", "prerequisites", "managed", "--hub-cluster-arn", HUB, "--managed-cluster-arn", MANAGED]
    line += ["--oidc-provider", ISSUER, "--klusterlet", "k", "--namespace", "open-cluster-management-x"]
    role = json.loads(hub.ok(*line, "--output", "json"))
    assert (role["RoleName"], {one["Key"]: one["Value"] for one in role["Tags"]}) == (PAIR.managed_role, dict(PAIR.tags))
    accounts = [f"system:serviceaccount:open-cluster-management-x:k-{name}-sa" for name in ("registration", "work")]
    assert subjects(role) == accounts
    assert subjects(json.loads(hub.ok(*line, "--mode", "SingletonHosted"))) == ["system:serviceaccount:k:k-work-sa"]


@shows("aws prerequisites hub", "--apply")
@shows("aws prerequisites managed", "--apply")
@shows("aws cleanup", "--hub-cluster-arn", "--namespace")
async def test_roles_are_made_and_those_of_nobody_removed(hub: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with local_aws(tmp_path / "aws") as aws:
        administrators = {account: await aws.administrator(account) for account in (PAIR.hub.account, PAIR.managed.account)}

        async def ok(account: str, *words: str) -> str:
            for name, value in aws.environ(REGION, administrators[account]).items():
                monkeypatch.setenv(name, value)
            return await asyncio.to_thread(hub.ok, *words)

        asked = {account: Botocore(aws, known) for account, known in administrators.items()}
        for account in administrators:
            await asked[account].iam("create_open_id_connect_provider", Url=f"https://{ISSUER}", ClientIDList=["sts.amazonaws.com"])
        own = ["--hub-cluster-arn", HUB, "--oidc-provider", ISSUER, "--apply"]
        told = await ok(PAIR.hub.account, "aws", "prerequisites", "hub", *own)
        assert "is made" in told
        assert "as it should be" in await ok(PAIR.hub.account, "aws", "prerequisites", "hub", *own)
        await ok(PAIR.managed.account, "aws", "prerequisites", "managed", *own, "--managed-cluster-arn", MANAGED)
        found = await asked[PAIR.managed.account].iam("get_role", RoleName=PAIR.managed_role)
        assert {one["Key"]: one["Value"] for one in found["Role"]["Tags"]} == dict(PAIR.tags)

        tags = [{"Key": key, "Value": value} for key, value in {HUB_ARN_TAG: HUB, CLUSTER_TAG: "gone"}.items()]
        trust = json.dumps(policies.hub_trust(PAIR))
        await asked[PAIR.hub.account].iam("create_role", RoleName=PAIR.hub_role, AssumeRolePolicyDocument=trust, Tags=tags)
        await ok(PAIR.hub.account, "aws", "cleanup", "--hub-cluster-arn", HUB, "--namespace", "open-cluster-management-hub")
        names = [one["RoleName"] for one in (await asked[PAIR.hub.account].iam("list_roles"))["Roles"]]
        assert PAIR.hub_role not in names


@shows("accept", "--managed-cluster-arn")
def test_a_cluster_that_was_there_before_is_told_which_it_is(hub: World) -> None:
    hub.hub.admin.post(MANAGED_CLUSTERS, managed_cluster("prepared")).expect(201)
    hub.ok("accept", "--clusters", "prepared", "--managed-cluster-arn", MANAGED)
    found = hub.hub.find("prepared")
    assert found is not None
    assert found["metadata"]["annotations"]["eks-managed-cluster-arn"] == MANAGED
    assert found["spec"]["hubAcceptsClient"]
    assert "another" in hub.fails("accept", "--clusters", "prepared", "--managed-cluster-arn", HUB)
