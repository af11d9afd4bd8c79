"""STS through botocore: who am I, and who may become whom."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from muster.aws.interfaces import AwsCredentials
from muster.fleet.aws import LocalAws
from tests.support.local_aws import Botocore, MovedClock, allow, local_aws, policy, trusting
from tests.unit.fleet.aws.conftest import HUB, MANAGED

ROLE = f"arn:aws:iam::{HUB}:role/r"
ASSUME = {"RoleArn": ROLE, "RoleSessionName": "s1"}


async def test_everybody_may_ask_who_they_are(aws: LocalAws) -> None:
    denied = json.loads(policy({"Effect": "Deny", "Action": "*", "Resource": "*"}))
    nobody = Botocore(aws, await aws.create_user(HUB, "nobody", denied))
    told = await nobody.sts("get_caller_identity")
    assert (told["Account"], told["Arn"]) == (HUB, f"arn:aws:iam::{HUB}:user/nobody")
    assert told["UserId"].startswith("AIDA")


async def test_a_session_is_of_its_role(admin: Botocore) -> None:
    made = await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    session = await admin.assume(ROLE, "s1", DurationSeconds=900)
    told = await session.sts("get_caller_identity")
    assert told["Arn"] == f"arn:aws:sts::{HUB}:assumed-role/r/s1"
    assert told["UserId"] == f"{made['Role']['RoleId']}:s1"
    assert await session.code("iam", "get_role", RoleName="r") == "AccessDenied"  # a role has its own rights, not the caller's
    await admin.iam("put_role_policy", RoleName="r", PolicyName="p", PolicyDocument=policy(allow("iam:GetRole")))
    assert await session.code("iam", "get_role", RoleName="r") == "OK"


async def test_sessions_end(tmp_path: Path) -> None:
    clock = MovedClock()
    async with local_aws(tmp_path / "aws", clock=clock) as aws:
        admin = Botocore(aws, await aws.administrator(HUB))
        await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
        session = await admin.assume(ROLE, DurationSeconds=900)
        assert session.credentials is not None
        assert session.credentials.expires is not None
        assert abs(session.credentials.expires - datetime.now(UTC) - timedelta(seconds=900)) < timedelta(seconds=10)
        aws.behaviour.longest_session = 100
        short = await admin.assume(ROLE)
        assert await short.code("sts", "get_caller_identity") == "OK"
        clock.offset = timedelta(seconds=101)
        assert await short.code("sts", "get_caller_identity") == "ExpiredToken"
        assert await short.code("eks", "list_clusters") == "ExpiredTokenException"
        assert await session.code("sts", "get_caller_identity") == "OK"


async def test_a_deleted_roles_sessions_are_nobodys(admin: Botocore) -> None:
    trust = trusting({"AWS": HUB})
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trust)
    session = await admin.assume(ROLE)
    await admin.iam("delete_role", RoleName="r")
    assert await session.code("sts", "get_caller_identity") == "InvalidClientTokenId"
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trust)
    assert await session.code("sts", "get_caller_identity") == "InvalidClientTokenId"


@pytest.mark.parametrize("name", ["a b", "x" * 65, "a/b", "a:b"])
async def test_session_names_have_a_form(admin: Botocore, name: str) -> None:
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    assert await admin.code("sts", "assume_role", RoleArn=ROLE, RoleSessionName=name) == "ValidationError"


async def test_roles_have_their_longest_session_and_chains_an_hour(admin: Botocore) -> None:
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    assert await admin.code("sts", "assume_role", **ASSUME, DurationSeconds=3601) == "ValidationError"
    await admin.iam("create_role", RoleName="long", AssumeRolePolicyDocument=trusting({"AWS": HUB}), MaxSessionDuration=7200)
    long = f"arn:aws:iam::{HUB}:role/long"
    assert await admin.code("sts", "assume_role", RoleArn=long, RoleSessionName="s1", DurationSeconds=7200) == "OK"
    await admin.iam("put_role_policy", RoleName="r", PolicyName="p", PolicyDocument=policy(allow("sts:AssumeRole")))
    chained = await admin.assume(ROLE)
    assert await chained.code("sts", "assume_role", RoleArn=long, RoleSessionName="s1", DurationSeconds=7200) == "ValidationError"
    assert await chained.code("sts", "assume_role", RoleArn=long, RoleSessionName="s1", DurationSeconds=3600) == "OK"


async def test_what_is_not_known_here_is_refused_not_passed_over(admin: Botocore) -> None:
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    session_policy = policy({"Effect": "Deny", "Action": "*", "Resource": "*"})
    assert await admin.code("sts", "assume_role", **ASSUME, Policy=session_policy) == "ValidationError"
    assert await admin.code("sts", "assume_role", **ASSUME, Tags=[{"Key": "a", "Value": "b"}]) == "ValidationError"


USER = f"arn:aws:iam::{MANAGED}:user/u"
LOCAL_USER = f"arn:aws:iam::{HUB}:user/u"
MAY = allow("sts:AssumeRole", ROLE)
MAY_NOT = {"Effect": "Deny", "Action": "sts:*", "Resource": "*"}
ELSE = allow("sts:AssumeRole", f"arn:aws:iam::{HUB}:role/other")


@pytest.mark.parametrize(
    ("account", "trusted", "own", "allowed"),
    [
        # Across accounts both sides have to say yes.
        (MANAGED, USER, [MAY], True),
        (MANAGED, USER, [ELSE], False),
        (MANAGED, MANAGED, [MAY], True),
        (MANAGED, MANAGED, [ELSE], False),
        (MANAGED, HUB, [MAY], False),
        (MANAGED, "*", [MAY], True),
        (MANAGED, "*", [ELSE], False),
        (MANAGED, USER, [MAY, MAY_NOT], False),
        # In one account a trust that names the caller is enough, and one that names the account is not.
        (HUB, LOCAL_USER, [ELSE], True),
        (HUB, HUB, [ELSE], False),
        (HUB, HUB, [MAY], True),
        (HUB, LOCAL_USER, [MAY_NOT], False),
        (HUB, MANAGED, [MAY], False),
    ],
)
async def test_who_may_take_a_role(
    aws: LocalAws, admin: Botocore, other: Botocore, account: str, trusted: str, own: list[dict], allowed: bool
) -> None:
    user = Botocore(aws, await aws.create_user(account, "u", json.loads(policy(*own))))
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": trusted}))
    assert await user.code("sts", "assume_role", **ASSUME) == ("OK" if allowed else "AccessDenied")


async def test_a_trust_that_denies_wins(aws: LocalAws, admin: Botocore) -> None:
    both = policy(
        {"Effect": "Allow", "Principal": {"AWS": HUB}, "Action": "sts:AssumeRole"},
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"aws:PrincipalTag/t": "1"}},
        },
    )
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=both)
    everything = json.loads(policy(allow("*")))
    tagged = Botocore(aws, await aws.create_user(HUB, "tagged", everything, {"t": "1"}))
    plain = Botocore(aws, await aws.create_user(HUB, "plain", everything, {"t": "2"}))
    assert await tagged.code("sts", "assume_role", **ASSUME) == "AccessDenied"
    assert await plain.code("sts", "assume_role", **ASSUME) == "OK"


async def test_an_external_id_can_be_asked_for(admin: Botocore) -> None:
    trust = trusting({"AWS": HUB}, Condition={"StringEquals": {"sts:ExternalId": "e1"}})
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trust)
    assert await admin.code("sts", "assume_role", **ASSUME) == "AccessDenied"
    assert await admin.code("sts", "assume_role", **ASSUME, ExternalId="e2") == "AccessDenied"
    assert await admin.code("sts", "assume_role", **ASSUME, ExternalId="e1") == "OK"


async def test_a_role_that_is_not_there_cannot_be_told_from_one_that_refuses(admin: Botocore) -> None:
    missing, form = f"arn:aws:iam::{HUB}:role/none", "arn:aws:iam::1:role/r"
    assert await admin.code("sts", "assume_role", RoleArn=missing, RoleSessionName="s1") == "AccessDenied"
    assert await admin.code("sts", "assume_role", RoleArn=form, RoleSessionName="s1") == "ValidationError"
    assert (
        await admin.code("sts", "assume_role", RoleArn="arn:aws:iam::333333333333:role/r", RoleSessionName="s1") == "AccessDenied"
    )


async def test_secrets_are_not_in_errors_or_logs(aws: LocalAws, admin: Botocore) -> None:
    assert admin.credentials is not None
    wrong = Botocore(aws, AwsCredentials(admin.credentials.access_key_id, "wrong-secret-key"))
    with pytest.raises(ClientError) as refused:
        await wrong.sts("get_caller_identity")
    assert admin.credentials.secret_access_key not in str(refused.value)
    assert "wrong-secret-key" not in str(list(aws.calls))
    assert admin.credentials.secret_access_key not in repr(aws.world.state)
    assert admin.credentials.secret_access_key not in repr(aws.world.state.accounts)
