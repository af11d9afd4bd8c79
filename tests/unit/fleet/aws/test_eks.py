"""EKS through botocore: clusters, access entries, and what EKS refuses of them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from muster.aws.arns import BadArn
from muster.aws.interfaces import ClusterDescription
from muster.fleet.aws import LocalAws
from tests.support.local_aws import REGION, Botocore, allow, policy, trusting
from tests.unit.fleet.aws.conftest import HUB, MANAGED

ARN = f"arn:aws:eks:{REGION}:{HUB}:cluster/hub-0"
ROLE = f"arn:aws:iam::{HUB}:role/r"
ENTRY = {"clusterName": "hub-0", "principalArn": ROLE}


def described(arn: str = ARN, mode: str = "API_AND_CONFIG_MAP") -> ClusterDescription:
    return ClusterDescription(arn, "https://127.0.0.1:6443", b"PEM", mode, "https://oidc.example.com/hub-0")


@pytest.fixture
async def hub(aws: LocalAws, admin: Botocore) -> str:
    await aws.register_cluster(described())
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    return ARN


async def test_a_cluster_is_described_to_its_account_and_in_its_region(
    aws: LocalAws, hub: str, admin: Botocore, other: Botocore
) -> None:
    found = (await admin.eks("describe_cluster", name="hub-0"))["cluster"]
    assert (found["arn"], found["endpoint"], found["status"]) == (ARN, "https://127.0.0.1:6443", "ACTIVE")
    assert base64.b64decode(found["certificateAuthority"]["data"]) == b"PEM"
    assert found["identity"]["oidc"]["issuer"] == "https://oidc.example.com/hub-0"
    assert found["accessConfig"]["authenticationMode"] == "API_AND_CONFIG_MAP"
    assert (await admin.eks("list_clusters"))["clusters"] == ["hub-0"]
    assert await other.code("eks", "describe_cluster", name="hub-0") == "ResourceNotFoundException"
    elsewhere = Botocore(aws, admin.credentials, "eu-central-1")
    assert await elsewhere.code("eks", "describe_cluster", name="hub-0") == "ResourceNotFoundException"
    assert (await elsewhere.eks("list_clusters"))["clusters"] == []
    with pytest.raises(admin.client("eks").exceptions.ResourceNotFoundException):
        await admin.eks("describe_cluster", name="none")


async def test_an_access_entry_is_made_read_changed_and_removed(hub: str, admin: Botocore) -> None:
    made = (await admin.eks("create_access_entry", **ENTRY, username="ocm:c1", kubernetesGroups=["ocm:c1"], tags={"a": "b"}))[
        "accessEntry"
    ]
    assert made["accessEntryArn"].startswith(f"arn:aws:eks:{REGION}:{HUB}:access-entry/hub-0/role/{HUB}/r/")
    assert (made["username"], made["kubernetesGroups"], made["tags"], made["type"]) == (
        "ocm:c1",
        ["ocm:c1"],
        {"a": "b"},
        "STANDARD",
    )
    assert (await admin.eks("describe_access_entry", **ENTRY))["accessEntry"] == made
    assert (await admin.eks("list_access_entries", clusterName="hub-0"))["accessEntries"] == [ROLE]
    with pytest.raises(admin.client("eks").exceptions.ResourceInUseException):
        await admin.eks("create_access_entry", **ENTRY)
    changed = (await admin.eks("update_access_entry", **ENTRY, kubernetesGroups=["ocm:c2"]))["accessEntry"]
    assert (changed["username"], changed["kubernetesGroups"]) == ("ocm:c1", ["ocm:c2"])
    await admin.eks("tag_resource", resourceArn=made["accessEntryArn"], tags={"c": "d"})
    assert (await admin.eks("describe_access_entry", **ENTRY))["accessEntry"]["tags"] == {"a": "b", "c": "d"}
    await admin.eks("delete_access_entry", **ENTRY)
    for operation in ("describe_access_entry", "delete_access_entry", "update_access_entry"):
        assert await admin.code("eks", operation, **ENTRY) == "ResourceNotFoundException"


async def test_a_role_with_a_path_has_its_entry(hub: str, admin: Botocore) -> None:
    await admin.iam("create_role", RoleName="p", Path="/a/b/", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    with_path = f"arn:aws:iam::{HUB}:role/a/b/p"
    assert await admin.code("eks", "create_access_entry", clusterName="hub-0", principalArn=with_path) == "OK"
    assert await admin.code("eks", "describe_access_entry", clusterName="hub-0", principalArn=with_path) == "OK"
    without = f"arn:aws:iam::{HUB}:role/p"
    assert await admin.code("eks", "create_access_entry", clusterName="hub-0", principalArn=without) == "InvalidParameterException"


@pytest.mark.parametrize(
    "wrong",
    [
        {"principalArn": f"arn:aws:iam::{HUB}:role/none"},
        {"principalArn": "nonsense"},
        {"username": "system:masters"},
        {"username": "eks:x"},
        {"username": "{{SessionName}}"},
        {"kubernetesGroups": ["system:masters"]},
        {"kubernetesGroups": ["aws:x"]},
        {"type": "EC2_LINUX"},
        {"tags": {"aws:x": "y"}},
    ],
)
async def test_what_eks_keeps_for_itself_is_not_given_away(hub: str, admin: Botocore, wrong: dict[str, Any]) -> None:
    assert await admin.code("eks", "create_access_entry", **{**ENTRY, **wrong}) == "InvalidParameterException"


async def test_a_cluster_without_entries_has_none(aws: LocalAws, hub: str, admin: Botocore) -> None:
    await aws.register_cluster(described(mode="CONFIG_MAP"))
    known = admin.client("eks").exceptions
    for operation in ("create_access_entry", "describe_access_entry", "delete_access_entry"):
        with pytest.raises(known.InvalidRequestException, match="authentication mode"):
            await admin.eks(operation, **ENTRY)


async def test_registering_again_keeps_the_entries(aws: LocalAws, hub: str, admin: Botocore) -> None:
    await admin.eks("create_access_entry", **ENTRY)
    await aws.register_cluster(described(mode="API"))
    assert (await admin.eks("list_access_entries", clusterName="hub-0"))["accessEntries"] == [ROLE]
    await aws.remove_cluster(ARN)
    assert (await admin.eks("list_clusters"))["clusters"] == []


async def test_a_registration_that_makes_no_sense_is_refused(aws: LocalAws) -> None:
    with pytest.raises(BadArn):
        await aws.register_cluster(described("arn:aws:eks:x:1:cluster/y"))
    with pytest.raises(ValueError, match="partition"):
        await aws.register_cluster(described("arn:aws-cn:eks:cn-north-1:111111111111:cluster/y"))
    with pytest.raises(ValueError, match="authentication_mode"):
        await aws.register_cluster(described(mode="NONE"))


async def test_the_seeds_hub_policy_describes_and_does_not_list(aws: LocalAws, hub: str) -> None:
    seed = json.loads(policy(allow(["eks:DescribeCluster", "eks:ListClusters"], ARN)))
    user = Botocore(aws, await aws.create_user(HUB, "u", seed))
    assert await user.code("eks", "describe_cluster", name="hub-0") == "OK"
    assert await user.code("eks", "list_clusters") == "AccessDeniedException"


async def test_entries_need_rights_on_cluster_and_entry(aws: LocalAws, hub: str) -> None:
    entries = f"arn:aws:eks:{REGION}:{HUB}:access-entry/hub-0/*"
    some = [allow("eks:CreateAccessEntry", ARN), allow(["eks:DeleteAccessEntry", "eks:DescribeAccessEntry"], entries)]
    user = Botocore(aws, await aws.create_user(HUB, "u", json.loads(policy(*some))))
    assert await user.code("eks", "create_access_entry", **ENTRY, tags={"a": "b"}) == "AccessDeniedException"
    assert await user.code("eks", "create_access_entry", **ENTRY) == "OK"
    assert await user.code("eks", "update_access_entry", **ENTRY, username="x") == "AccessDeniedException"
    assert await user.code("eks", "describe_access_entry", **ENTRY) == "OK"
    assert await user.code("eks", "delete_access_entry", **ENTRY) == "OK"
    assert await user.code("eks", "delete_access_entry", **ENTRY) == "ResourceNotFoundException"


async def test_entries_are_listed_by_pages(hub: str, admin: Botocore) -> None:
    for number in range(3):
        await admin.iam("create_role", RoleName=f"r{number}", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
        await admin.eks("create_access_entry", clusterName="hub-0", principalArn=f"{ROLE}{number}")
    first = await admin.eks("list_access_entries", clusterName="hub-0", maxResults=2)
    assert len(first["accessEntries"]) == 2
    rest = await admin.eks("list_access_entries", clusterName="hub-0", maxResults=2, nextToken=first["nextToken"])
    assert (rest["accessEntries"], rest.get("nextToken")) == ([f"{ROLE}2"], None)


async def test_another_accounts_cluster_is_not_there_to_tag(aws: LocalAws, hub: str, other: Botocore) -> None:
    assert MANAGED != HUB
    assert await other.code("eks", "tag_resource", resourceArn=ARN, tags={"a": "b"}) == "NotFoundException"
