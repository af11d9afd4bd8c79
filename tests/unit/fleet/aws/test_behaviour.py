"""A local AWS that is slow, throttled, failing and forgetful, and its call log; and what is there after a restart."""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from muster.aws.interfaces import ClusterDescription
from muster.fleet.aws import FaultKind, LocalAws, LocalAwsConfig, UnreadableState
from muster.fleet.aws.behaviour import Behaviour, Throttle
from muster.fleet.aws.errors import AwsRefusal
from tests.support.fake_clock import FakeClock
from tests.support.local_aws import REGION, Botocore, MovedClock, allow, local_aws, policy, trusting
from tests.unit.fleet.aws.conftest import HUB

TRUST = trusting({"AWS": HUB})
ROLE = {"RoleName": "r", "AssumeRolePolicyDocument": TRUST}
ARN = f"arn:aws:eks:{REGION}:{HUB}:cluster/hub-0"


@pytest.mark.parametrize(
    ("kind", "service", "operation", "expected"),
    [
        (FaultKind.ERROR, "iam", "list_roles", ("InternalFailure", 500)),
        (FaultKind.UNAVAILABLE, "iam", "list_roles", ("ServiceUnavailable", 503)),
        (FaultKind.THROTTLED, "iam", "list_roles", ("Throttling", 400)),
        (FaultKind.ERROR, "eks", "list_clusters", ("ServerException", 500)),
        (FaultKind.THROTTLED, "eks", "list_clusters", ("ThrottlingException", 400)),
        (FaultKind.THROTTLED, "sts", "get_caller_identity", ("Throttling", 400)),
    ],
)
async def test_an_operation_can_be_made_to_fail(
    aws: LocalAws, admin: Botocore, kind: FaultKind, service: str, operation: str, expected: tuple[str, int]
) -> None:
    aws.behaviour.fail(f"{service}:*", kind)
    with pytest.raises(ClientError) as refused:
        await getattr(admin, service)(operation)
    found = refused.value.response
    assert (found["Error"]["Code"], found["ResponseMetadata"]["HTTPStatusCode"]) == expected
    assert await admin.code(service, operation) == "OK"


async def test_faults_are_for_one_operation_and_so_many_times(aws: LocalAws, admin: Botocore) -> None:
    aws.behaviour.fail("iam:CreateRole", FaultKind.ERROR, times=2)
    assert await admin.code("iam", "list_roles") == "OK"
    assert [await admin.code("iam", "create_role", **ROLE) for _ in range(3)] == ["InternalFailure", "InternalFailure", "OK"]
    assert aws.behaviour.faults == []
    always = aws.behaviour.fail("iam:GetRole", FaultKind.ERROR, times=None)
    assert [await admin.code("iam", "get_role", RoleName="r") for _ in range(3)] == ["InternalFailure"] * 3
    aws.behaviour.faults.remove(always)
    assert await admin.code("iam", "get_role", RoleName="r") == "OK"


async def test_an_answer_is_lost_after_the_deed_or_before(aws: LocalAws, admin: Botocore) -> None:
    aws.behaviour.fail("iam:CreateRole", FaultKind.CUT)
    with pytest.raises(ConnectionClosedError):
        await admin.iam("create_role", **ROLE)
    assert await admin.code("iam", "get_role", RoleName="r") == "NoSuchEntity"
    aws.behaviour.fail("iam:CreateRole", FaultKind.CUT, after=True)
    with pytest.raises(ConnectionClosedError):
        await admin.iam("create_role", **ROLE)
    assert await admin.code("iam", "get_role", RoleName="r") == "OK"
    assert await admin.code("iam", "create_role", **ROLE) == "EntityAlreadyExists"


async def test_an_answer_may_never_come(aws: LocalAws, admin: Botocore) -> None:
    aws.behaviour.fail("iam:CreateRole", FaultKind.HANG, after=True)
    hasty = Botocore(aws, admin.credentials, read_timeout=0.3)
    with pytest.raises(ReadTimeoutError):
        await hasty.iam("create_role", **ROLE)
    assert await admin.code("iam", "get_role", RoleName="r") == "OK"


async def test_calls_can_be_slow() -> None:
    clock = FakeClock()
    behaviour = Behaviour(clock)
    behaviour.delay = 2.0
    behaviour.delays["iam:Create*"] = 10.0
    calls = {name: asyncio.create_task(behaviour.before(name, HUB)) for name in ("iam:GetRole", "iam:CreateRole")}
    await clock.advance(1.9)
    assert not calls["iam:GetRole"].done()
    await clock.advance(0.2)
    assert calls["iam:GetRole"].done()
    assert not calls["iam:CreateRole"].done()
    await clock.advance(8)
    assert calls["iam:CreateRole"].done()


async def test_calls_are_throttled_by_account() -> None:
    clock = FakeClock()
    behaviour = Behaviour(clock)
    behaviour.throttles["iam:*"] = Throttle(10.0, 2.0)

    async def allowed(account: str, operation: str = "iam:GetRole") -> bool:
        try:
            await behaviour.before(operation, account)
        except AwsRefusal as refusal:
            return refusal.code != "Throttling"
        return True

    assert [await allowed("a") for _ in range(3)] == [True, True, False]
    assert await allowed("b")
    assert await allowed("a", "sts:GetCallerIdentity")
    await clock.advance(0.1)
    assert [await allowed("a") for _ in range(2)] == [True, False]
    await clock.advance(100)
    assert [await allowed("a") for _ in range(3)] == [True, True, False]


async def test_a_new_role_is_seen_later_by_others(tmp_path: Path) -> None:
    clock = MovedClock()
    async with local_aws(tmp_path / "aws", clock=clock) as aws:
        admin = Botocore(aws, await aws.administrator(HUB))
        await aws.register_cluster(ClusterDescription(ARN, "https://127.0.0.1:1", b"PEM", "API", ""))
        aws.set_lag(60)
        role = f"arn:aws:iam::{HUB}:role/r"
        naming = {"RoleName": "s", "AssumeRolePolicyDocument": trusting({"AWS": role})}
        entry = {"clusterName": "hub-0", "principalArn": role}

        async def seen() -> list[str]:
            return [
                await admin.code("sts", "assume_role", RoleArn=role, RoleSessionName="s1"),
                await admin.code("eks", "create_access_entry", **entry),
                await admin.code("iam", "create_role", **naming),
            ]

        await admin.iam("create_role", **ROLE)
        assert await admin.code("iam", "get_role", RoleName="r") == "OK"
        assert await seen() == ["AccessDenied", "InvalidParameterException", "MalformedPolicyDocument"]
        clock.offset = timedelta(seconds=61)
        assert await seen() == ["OK", "OK", "OK"]
        await admin.iam("update_assume_role_policy", RoleName="r", PolicyDocument=trusting({"Service": "ec2.amazonaws.com"}))
        assert await admin.code("sts", "assume_role", RoleArn=role, RoleSessionName="s1") == "OK"
        clock.offset = timedelta(seconds=122)
        assert await admin.code("sts", "assume_role", RoleArn=role, RoleSessionName="s1") == "AccessDenied"


async def test_the_log_says_who_did_what_and_how_it_ended(aws: LocalAws, admin: Botocore) -> None:
    await admin.iam("create_role", **ROLE)
    await admin.code("iam", "create_role", **ROLE)
    await admin.code("eks", "describe_cluster", name="none")
    aws.behaviour.fail("*", FaultKind.CUT)
    with pytest.raises(ConnectionClosedError):
        await admin.sts("get_caller_identity")
    caller = f"arn:aws:iam::{HUB}:user/administrator"
    assert [(one.operation, one.result) for one in aws.calls] == [
        ("iam:CreateRole", "OK"),
        ("iam:CreateRole", "EntityAlreadyExists"),
        ("eks:DescribeCluster", "ResourceNotFoundException"),
        ("sts:GetCallerIdentity", "lost"),
    ]
    assert {(one.account, one.caller) for one in aws.calls} == {(HUB, caller)}
    role, cluster = f"arn:aws:iam::{HUB}:role/r", f"arn:aws:eks:{REGION}:{HUB}:cluster/none"
    assert [one.resource for one in aws.calls] == [role, role, cluster, ""]
    assert [one.needed for one in aws.calls][:3] == [("iam:CreateRole",), ("iam:CreateRole",), ("eks:DescribeCluster",)]
    assert (aws.calls.count("iam:CreateRole"), aws.calls.count()) == (2, 4)
    aws.calls.clear()
    assert (len(aws.calls), aws.calls.count()) == (0, 0)


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    directory = tmp_path / "aws"
    async with local_aws(directory) as aws:
        admin = Botocore(aws, await aws.administrator(HUB))
        await aws.register_cluster(ClusterDescription(ARN, "https://127.0.0.1:1", b"PEM", "API", "https://i.example.com"))
        made = (await admin.iam("create_role", **ROLE, Tags=[{"Key": "a", "Value": "b"}]))["Role"]
        await admin.iam("put_role_policy", RoleName="r", PolicyName="p", PolicyDocument=policy(allow("eks:*")))
        await admin.eks("create_access_entry", clusterName="hub-0", principalArn=made["Arn"], kubernetesGroups=["g"])
        session = await admin.assume(made["Arn"])
        url, ca = aws.url, aws.ca_pem
    async with local_aws(directory) as aws:
        assert (aws.url, aws.ca_pem) == (url, ca)
        assert (await aws.administrator(HUB)).access_key_id == (admin.credentials and admin.credentials.access_key_id)
        again = Botocore(aws, admin.credentials)
        found = (await again.iam("get_role", RoleName="r"))["Role"]
        assert (found["RoleId"], found["Tags"], found["CreateDate"]) == (
            made["RoleId"],
            [{"Key": "a", "Value": "b"}],
            made["CreateDate"],
        )
        entry = (await again.eks("describe_access_entry", clusterName="hub-0", principalArn=made["Arn"]))["accessEntry"]
        assert entry["kubernetesGroups"] == ["g"]
        kept = Botocore(aws, session.credentials)
        assert await kept.code("eks", "describe_cluster", name="hub-0") == "OK"


async def test_what_was_answered_is_in_the_file_already(tmp_path: Path) -> None:
    directory = tmp_path / "aws"
    async with local_aws(directory) as aws:
        admin = Botocore(aws, await aws.administrator(HUB))
        wanted = [admin.iam("create_role", RoleName=f"r{number}", AssumeRolePolicyDocument=TRUST) for number in range(5)]
        await asyncio.gather(*wanted)
        kept = json.loads((directory / "aws.json").read_bytes())
        assert sorted(kept["accounts"][HUB]["roles"]) == [f"r{number}" for number in range(5)]
        assert stat.S_IMODE((directory / "aws.json").stat().st_mode) == 0o600
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


async def test_a_state_that_cannot_be_written_is_told(aws: LocalAws, admin: Botocore) -> None:
    """Whoever asked may try again."""
    assert aws.config.directory is not None
    await admin.iam("list_roles")  # botocore reads the CA from there when it connects
    kept = aws.config.directory.rename(aws.config.directory.with_name("elsewhere"))
    assert await admin.code("iam", "create_role", **ROLE) == "InternalFailure"
    kept.rename(aws.config.directory)
    assert await admin.code("iam", "tag_role", RoleName="r", Tags=[{"Key": "a", "Value": "b"}]) == "OK"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 1}'])
async def test_a_damaged_state_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    async with local_aws(tmp_path / "aws"):
        pass
    (tmp_path / "aws" / "aws.json").write_bytes(content)
    with pytest.raises(UnreadableState, match=r"aws\.json: damaged"):
        LocalAws(LocalAwsConfig(tmp_path / "aws"))
    assert (tmp_path / "aws" / "aws.json").read_bytes() == content


async def test_a_state_of_another_format_or_partition_is_not_taken(tmp_path: Path) -> None:
    async with local_aws(tmp_path / "aws"):
        pass
    file = tmp_path / "aws" / "aws.json"
    with pytest.raises(UnreadableState, match="partition"):
        LocalAws(LocalAwsConfig(tmp_path / "aws", partition="aws-cn"))
    state: dict[str, Any] = json.loads(file.read_bytes())
    file.write_bytes(json.dumps({**state, "version": 99}).encode())
    with pytest.raises(UnreadableState, match="format 99"):
        LocalAws(LocalAwsConfig(tmp_path / "aws"))


async def test_a_state_in_memory_leaves_nothing(tmp_path: Path) -> None:
    aws = LocalAws(LocalAwsConfig())
    await aws.start()
    try:
        await aws.administrator(HUB)
        assert aws.ca_file is None
        assert "AWS_CA_BUNDLE" not in aws.environ(REGION)
    finally:
        await aws.stop()


async def test_another_partition_has_its_own_arns(tmp_path: Path) -> None:
    async with local_aws(tmp_path / "aws", partition="aws-cn") as aws:
        admin = Botocore(aws, await aws.administrator(HUB), "cn-north-1")
        made = await admin.iam(
            "create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": f"arn:aws-cn:iam::{HUB}:root"})
        )
        assert made["Role"]["Arn"] == f"arn:aws-cn:iam::{HUB}:role/r"
        session = await admin.assume(made["Role"]["Arn"])
        assert (await session.sts("get_caller_identity"))["Arn"].startswith("arn:aws-cn:sts::")
