"""IAM through botocore: every operation, and what AWS refuses of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from muster.fleet.aws import LocalAws
from tests.support.local_aws import Botocore, allow, policy, trusting
from tests.unit.fleet.aws.conftest import HUB, MANAGED

TRUST = trusting({"AWS": f"arn:aws:iam::{HUB}:root"})
ROLE = f"arn:aws:iam::{HUB}:role/r"


async def make_role(client: Botocore, name: str = "r", trust: str = TRUST, **more: Any) -> dict[str, Any]:
    answer = await client.iam("create_role", RoleName=name, AssumeRolePolicyDocument=trust, **more)
    return answer["Role"]


async def test_a_role_is_made_read_changed_and_removed(admin: Botocore) -> None:
    tags = [{"Key": "team", "Value": "a"}]
    made = await make_role(admin, Description="one", Tags=tags, MaxSessionDuration=7200, Path="/x/")
    assert made["Arn"] == f"arn:aws:iam::{HUB}:role/x/r"
    assert made["RoleId"].startswith("AROA")
    assert len(made["RoleId"]) == 21
    role = (await admin.iam("get_role", RoleName="r"))["Role"]
    assert role["AssumeRolePolicyDocument"] == json.loads(TRUST)
    assert (role["Tags"], role["Description"], role["MaxSessionDuration"], role["Path"]) == (tags, "one", 7200, "/x/")
    another = trusting("*")
    await admin.iam("update_assume_role_policy", RoleName="r", PolicyDocument=another)
    assert (await admin.iam("get_role", RoleName="r"))["Role"]["AssumeRolePolicyDocument"] == json.loads(another)
    await admin.iam("tag_role", RoleName="r", Tags=[{"Key": "Team", "Value": "b"}, {"Key": "zone", "Value": "1"}])
    await admin.iam("untag_role", RoleName="r", TagKeys=["zone"])
    assert (await admin.iam("list_role_tags", RoleName="r"))["Tags"] == [{"Key": "Team", "Value": "b"}]
    await admin.iam("delete_role", RoleName="r")
    assert await admin.code("iam", "get_role", RoleName="r") == "NoSuchEntity"


async def test_refusals_are_botocores_own_exceptions(admin: Botocore) -> None:
    await make_role(admin)
    known = admin.client("iam").exceptions
    with pytest.raises(known.EntityAlreadyExistsException):
        await make_role(admin, "R")  # names are told apart without regard to case
    with pytest.raises(known.NoSuchEntityException):
        await admin.iam("delete_role", RoleName="nobody")
    with pytest.raises(known.MalformedPolicyDocumentException):
        await make_role(admin, "s", trust="{")
    await admin.iam("put_role_policy", RoleName="r", PolicyName="p", PolicyDocument=policy(allow("eks:*")))
    with pytest.raises(known.DeleteConflictException):
        await admin.iam("delete_role", RoleName="r")
    with pytest.raises(known.LimitExceededException):
        await admin.iam("put_role_policy", RoleName="r", PolicyName="q", PolicyDocument=policy(allow(["eks:a"] * 2000)))


@pytest.mark.parametrize("name", ["a b", "é", "r" * 65, "a/b", "٣"])
async def test_names_have_the_form_that_iam_has(admin: Botocore, name: str) -> None:
    assert await admin.code("iam", "create_role", RoleName=name, AssumeRolePolicyDocument=TRUST) == "ValidationError"


async def test_a_principal_that_does_not_exist_is_refused(admin: Botocore, other: Botocore) -> None:
    principal = f"arn:aws:iam::{MANAGED}:role/late"
    trust = trusting({"AWS": principal})
    wanted = {"RoleName": "r", "AssumeRolePolicyDocument": trust}
    assert await admin.code("iam", "create_role", **wanted) == "MalformedPolicyDocument"
    await make_role(other, "late", trusting({"AWS": MANAGED}))
    assert await admin.code("iam", "create_role", **wanted) == "OK"
    for unknown in (
        "arn:aws:iam::333333333333:root",
        f"arn:aws:iam::{HUB}:role/*",
        "AROAAAAAAAAAAAAAAAAAA",
        "nonsense",
        "333333333333",
    ):
        refused = await admin.code("iam", "update_assume_role_policy", RoleName="r", PolicyDocument=trusting({"AWS": unknown}))
        assert refused == "MalformedPolicyDocument", unknown


async def test_an_account_reads_as_its_root(admin: Botocore) -> None:
    made = await make_role(admin, trust=trusting({"AWS": [HUB, f"arn:aws:iam::{HUB}:user/administrator"]}))
    root = f"arn:aws:iam::{HUB}:root"
    principals = made["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]
    assert principals == {"AWS": [root, f"arn:aws:iam::{HUB}:user/administrator"]}


async def test_a_role_made_again_is_another_one(admin: Botocore, other: Botocore) -> None:
    await make_role(other, "spoke", trusting({"AWS": MANAGED}))
    trust = trusting({"AWS": f"arn:aws:iam::{MANAGED}:role/spoke"})
    await make_role(admin, trust=trust)
    first = (await other.iam("get_role", RoleName="spoke"))["Role"]["RoleId"]
    await other.iam("delete_role", RoleName="spoke")
    await make_role(other, "spoke", trusting({"AWS": MANAGED}))
    read = (await admin.iam("get_role", RoleName="r"))["Role"]["AssumeRolePolicyDocument"]
    assert read["Statement"][0]["Principal"] == {"AWS": first}
    await admin.iam("update_assume_role_policy", RoleName="r", PolicyDocument=trust)
    assert (await admin.iam("get_role", RoleName="r"))["Role"]["AssumeRolePolicyDocument"] == json.loads(trust)


async def test_a_role_has_policies_of_its_own(admin: Botocore) -> None:
    await make_role(admin)
    document = policy(allow("eks:DescribeCluster", f"arn:aws:eks:us-west-2:{HUB}:cluster/hub"))
    for name in ("b", "a"):
        await admin.iam("put_role_policy", RoleName="r", PolicyName=name, PolicyDocument=document)
    assert (await admin.iam("list_role_policies", RoleName="r"))["PolicyNames"] == ["a", "b"]
    assert (await admin.iam("get_role_policy", RoleName="r", PolicyName="a"))["PolicyDocument"] == json.loads(document)
    await admin.iam("delete_role_policy", RoleName="r", PolicyName="a")
    for operation in ("get_role_policy", "delete_role_policy"):
        assert await admin.code("iam", operation, RoleName="r", PolicyName="a") == "NoSuchEntity"


async def test_policies_are_attached_and_let_go(admin: Botocore) -> None:
    await make_role(admin)
    made = (await admin.iam("create_policy", PolicyName="p", PolicyDocument=policy(allow("eks:*"))))["Policy"]
    arn = made["Arn"]
    assert arn == f"arn:aws:iam::{HUB}:policy/p"
    await admin.iam("attach_role_policy", RoleName="r", PolicyArn=arn)
    assert (await admin.iam("get_policy", PolicyArn=arn))["Policy"]["AttachmentCount"] == 1
    attached = (await admin.iam("list_attached_role_policies", RoleName="r"))["AttachedPolicies"]
    assert attached == [{"PolicyName": "p", "PolicyArn": arn}]
    assert await admin.code("iam", "delete_role", RoleName="r") == "DeleteConflict"
    assert await admin.code("iam", "delete_policy", PolicyArn=arn) == "DeleteConflict"
    await admin.iam("detach_role_policy", RoleName="r", PolicyArn=arn)
    assert await admin.code("iam", "detach_role_policy", RoleName="r", PolicyArn=arn) == "NoSuchEntity"
    await admin.iam("delete_policy", PolicyArn=arn)
    assert await admin.code("iam", "attach_role_policy", RoleName="r", PolicyArn=arn) == "NoSuchEntity"


async def test_roles_are_listed_by_pages(admin: Botocore) -> None:
    for number in range(5):
        await make_role(admin, f"r{number}", Tags=[{"Key": "a", "Value": "b"}])
    pages = admin.client("iam").get_paginator("list_roles").paginate(PaginationConfig={"PageSize": 2})

    def walk() -> list[list[str]]:
        return [[role["RoleName"] for role in page["Roles"]] for page in pages]

    assert await asyncio.to_thread(walk) == [["r0", "r1"], ["r2", "r3"], ["r4"]]
    first = (await admin.iam("list_roles", MaxItems=1))["Roles"][0]
    assert "Tags" not in first


async def test_providers_are_made_and_read(admin: Botocore) -> None:
    url = "https://oidc.example.com/id/ABC"
    made = await admin.iam("create_open_id_connect_provider", Url=url, ClientIDList=["sts.amazonaws.com"])
    arn = made["OpenIDConnectProviderArn"]
    assert arn == f"arn:aws:iam::{HUB}:oidc-provider/oidc.example.com/id/ABC"
    assert (await admin.iam("list_open_id_connect_providers"))["OpenIDConnectProviderList"] == [{"Arn": arn}]
    read = await admin.iam("get_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    assert (read["Url"], read["ClientIDList"]) == ("oidc.example.com/id/ABC", ["sts.amazonaws.com"])
    assert await admin.code("iam", "create_open_id_connect_provider", Url=url) == "EntityAlreadyExists"
    assert await admin.code("iam", "create_open_id_connect_provider", Url="http://plain.example.com") == "ValidationError"
    await admin.iam("delete_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    assert await admin.code("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn) == "NoSuchEntity"


async def test_accounts_do_not_see_each_other(admin: Botocore, other: Botocore) -> None:
    await make_role(admin)
    assert await other.code("iam", "get_role", RoleName="r") == "NoSuchEntity"
    assert (await other.iam("list_roles"))["Roles"] == []


async def test_only_what_policies_allow_is_done(aws: LocalAws, admin: Botocore) -> None:
    allowed = json.loads(policy(allow(["iam:CreateRole", "iam:GetRole"], f"arn:aws:iam::{HUB}:role/ocm-hub-*")))
    few = Botocore(aws, await aws.create_user(HUB, "few", allowed))
    made = {"RoleName": "ocm-hub-1", "AssumeRolePolicyDocument": TRUST}
    assert await few.code("iam", "create_role", **made, Tags=[{"Key": "a", "Value": "b"}]) == "AccessDenied"  # iam:TagRole
    assert await few.code("iam", "create_role", **made) == "OK"
    assert await few.code("iam", "create_role", **{**made, "RoleName": "else"}) == "AccessDenied"
    assert await few.code("iam", "get_role", RoleName="ocm-hub-none") == "NoSuchEntity"
    assert await few.code("iam", "get_role", RoleName="none") == "AccessDenied"
    assert await few.code("iam", "delete_role", RoleName="ocm-hub-1") == "AccessDenied"
    assert await few.code("iam", "list_roles") == "AccessDenied"


async def test_conditions_know_the_resource_the_request_and_the_caller(aws: LocalAws, admin: Botocore) -> None:
    def when(action: str, operator: str, key: str, value: str | list[str]) -> dict[str, Any]:
        return allow(action, Condition={operator: {key: value}})

    some = [
        when("iam:GetRole", "StringEquals", "aws:ResourceTag/hub", "h1"),
        when("iam:DeleteRole", "StringEquals", "iam:ResourceTag/hub", "h1"),
        when("iam:CreateRole", "StringEquals", "aws:RequestTag/hub", "h1"),
        when("iam:TagRole", "ForAllValues:StringEquals", "aws:TagKeys", ["hub"]),
        when("iam:ListRoles", "ArnLike", "aws:PrincipalArn", f"arn:aws:iam::{HUB}:user/some"),
        when("iam:ListRolePolicies", "ArnLike", "aws:PrincipalArn", f"arn:aws:iam::{HUB}:user/other"),
        when("iam:ListRoleTags", "StringEquals", "aws:PrincipalTag/team", "a"),
        when("iam:UntagRole", "StringEquals", "aws:PrincipalTag/team", "b"),
        when("iam:ListAttachedRolePolicies", "StringEquals", "aws:username", "some"),
    ]
    user = Botocore(aws, await aws.create_user(HUB, "some", json.loads(policy(*some)), {"team": "a"}))
    await make_role(admin, "own", Tags=[{"Key": "hub", "Value": "h1"}])
    await make_role(admin, "foreign", Tags=[{"Key": "hub", "Value": "h2"}])

    async def may(operation: str, name: str, **more: Any) -> bool:
        return await user.code("iam", operation, RoleName=name, **more) == "OK"

    assert (await may("get_role", "own"), await may("get_role", "foreign")) == (True, False)
    assert (await may("list_role_policies", "own"), await may("list_role_tags", "own")) == (False, True)
    assert await user.code("iam", "list_roles") == "OK"
    assert await may("list_attached_role_policies", "own")
    assert not await may("untag_role", "own", TagKeys=["hub"])
    new = {"AssumeRolePolicyDocument": TRUST}
    assert not await may("create_role", "n", **new)
    assert not await may("create_role", "n", **new, Tags=[{"Key": "hub", "Value": "h2"}])
    assert not await may("create_role", "n", **new, Tags=[{"Key": "hub", "Value": "h1"}, {"Key": "more", "Value": "x"}])
    assert await may("create_role", "n", **new, Tags=[{"Key": "hub", "Value": "h1"}])
    assert (await may("delete_role", "foreign"), await may("delete_role", "own")) == (False, True)


async def test_an_account_has_its_most_roles(aws: LocalAws, admin: Botocore) -> None:
    await make_role(admin)
    account = aws.world.state.accounts[HUB]
    for number in range(999):
        account.roles[f"r{number}"] = account.roles["r"]
    assert await admin.code("iam", "create_role", RoleName="more", AssumeRolePolicyDocument=TRUST) == "LimitExceeded"


async def test_tags_are_bounded(admin: Botocore) -> None:
    many = [{"Key": f"k{number}", "Value": "v"} for number in range(50)]
    await make_role(admin, Tags=many)
    assert await admin.code("iam", "tag_role", RoleName="r", Tags=[{"Key": "more", "Value": "v"}]) == "LimitExceeded"
    for tags in ([{"Key": "aws:x", "Value": "v"}], [{"Key": "a<", "Value": "v"}]):
        assert await admin.code("iam", "tag_role", RoleName="r", Tags=tags) == "ValidationError"
    twice = [{"Key": "a", "Value": "v"}, {"Key": "A", "Value": "v"}]
    assert await admin.code("iam", "tag_role", RoleName="r", Tags=twice) == "InvalidInput"


async def test_a_trust_has_its_longest(admin: Botocore) -> None:
    long = trusting({"AWS": HUB}, Condition={"StringEquals": {f"aws:PrincipalTag/{number}": "v" * 50 for number in range(40)}})
    assert await admin.code("iam", "create_role", RoleName="r", AssumeRolePolicyDocument=long) == "LimitExceeded"
