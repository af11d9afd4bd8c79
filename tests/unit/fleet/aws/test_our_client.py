"""Our own client of AWS on our own AWS: every call of `interfaces.Aws`, its errors as types, who we are by variables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from muster.aws import errors, policies
from muster.aws.arns import parse_cluster_arn
from muster.aws.client import AwsClient
from muster.aws.identity import FixedCredentials, connect
from muster.aws.interfaces import AccessEntry, ClusterDescription
from muster.aws.process_env import ProcessEnv
from muster.aws.role_names import RoleNames
from muster.fleet.aws import FaultKind, LocalAws, Throttle
from tests.support.local_aws import REGION, Botocore, trusting
from tests.unit.fleet.aws.conftest import HUB, MANAGED

PAIR = RoleNames(
    parse_cluster_arn(f"arn:aws:eks:{REGION}:{HUB}:cluster/hub-0"),
    parse_cluster_arn(f"arn:aws:eks:{REGION}:{MANAGED}:cluster/managed-0"),
)
ROLE = PAIR.hub_role
ENTRY = AccessEntry(PAIR.hub_role_arn, "ocm:managed-0", ("ocm:managed-0",), {"a": "b"})


@pytest.fixture
async def client(aws: LocalAws, other: Botocore) -> AsyncIterator[AwsClient]:
    """The administrator of the hub's account, in whose sight the managed cluster's role is."""
    await aws.register_cluster(ClusterDescription(str(PAIR.hub), "https://127.0.0.1:1", b"PEM", "API", ""))
    await other.iam("create_role", RoleName=PAIR.managed_role, AssumeRolePolicyDocument=trusting({"AWS": MANAGED}))
    connected = connect(ProcessEnv(aws.environ(REGION, await aws.administrator(HUB))))
    yield connected
    await connected.close()


async def test_a_role_through_its_life(client: AwsClient) -> None:
    trust = policies.hub_trust(PAIR)
    made = await client.create_role(ROLE, trust, {"team": "a"}, "of managed-0")
    assert made == await client.get_role(ROLE)
    assert (made.arn, made.trust, made.tags) == (PAIR.hub_role_arn, trust, {"team": "a"})
    assert [role.name for role in await client.list_roles()] == [ROLE]
    await client.tag_role(ROLE, {"team": "b", "zone": "1"})
    assert (await client.get_role(ROLE)).tags == {"team": "b", "zone": "1"}
    access = policies.hub_access(PAIR.hub)
    await client.put_role_policy(ROLE, "access", access)
    assert await client.list_role_policies(ROLE) == ["access"]
    assert await client.get_role_policy(ROLE, "access") == access
    with pytest.raises(errors.Conflict):
        await client.delete_role(ROLE)
    await client.delete_role_policy(ROLE, "access")
    assert await client.list_attached_role_policies(ROLE) == []
    await client.update_trust(ROLE, trust)
    await client.delete_role(ROLE)
    with pytest.raises(errors.NotFound):
        await client.get_role(ROLE)


async def test_foreign_policies_are_seen_and_detached(client: AwsClient, admin: Botocore) -> None:
    await client.create_role(ROLE, policies.hub_trust(PAIR), {})
    document = '{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}'
    arn = (await admin.iam("create_policy", PolicyName="foreign", PolicyDocument=document))["Policy"]["Arn"]
    await admin.iam("attach_role_policy", RoleName=ROLE, PolicyArn=arn)
    assert await client.list_attached_role_policies(ROLE) == [arn]
    await client.detach_role_policy(ROLE, arn)
    await client.delete_role(ROLE)


async def test_an_access_entry_through_its_life(client: AwsClient) -> None:
    described = await client.describe_cluster("hub-0")
    assert described == ClusterDescription(str(PAIR.hub), "https://127.0.0.1:1", b"PEM", "API", "")
    with pytest.raises(errors.InvalidParameter):
        await client.create_access_entry("hub-0", ENTRY)  # there is no such role
    await client.create_role(ROLE, policies.hub_trust(PAIR), {})
    await client.create_access_entry("hub-0", ENTRY)
    with pytest.raises(errors.AlreadyExists):
        await client.create_access_entry("hub-0", ENTRY)
    assert await client.describe_access_entry("hub-0", ENTRY.principal_arn) == ENTRY
    other = AccessEntry(ENTRY.principal_arn, "ocm:other", ("ocm:other",), ENTRY.tags)
    await client.update_access_entry("hub-0", other)
    assert await client.describe_access_entry("hub-0", ENTRY.principal_arn) == other
    await client.delete_access_entry("hub-0", ENTRY.principal_arn)
    with pytest.raises(errors.NotFound):
        await client.describe_access_entry("hub-0", ENTRY.principal_arn)


async def test_who_we_are_and_whom_we_may_become(aws: LocalAws, client: AwsClient) -> None:
    assert (await client.caller_identity()).arn == f"arn:aws:iam::{HUB}:user/administrator"
    await client.create_role(ROLE, policies.hub_trust(PAIR), {})
    with pytest.raises(errors.AccessDenied):
        await client.assume_role(PAIR.hub_role_arn, "session")
    await client.update_trust(ROLE, {"Statement": [{"Effect": "Allow", "Principal": {"AWS": HUB}, "Action": "sts:AssumeRole"}]})
    credentials = await client.assume_role(PAIR.hub_role_arn, "session", 900)
    session = AwsClient(REGION, ProcessEnv(aws.environ(REGION)), FixedCredentials(credentials))
    try:
        assert (await session.caller_identity()).arn == f"arn:aws:sts::{HUB}:assumed-role/{ROLE}/session"
    finally:
        await session.close()
    with pytest.raises(errors.NoIdentity):
        await client.assume_role_with_web_identity(PAIR.hub_role_arn, "session", "no token at all")


async def test_what_passes_is_told_from_what_does_not(aws: LocalAws, client: AwsClient) -> None:
    """One client for all: each takes botocore a second to make."""
    passing = {
        FaultKind.ERROR: errors.Unavailable,
        FaultKind.UNAVAILABLE: errors.Unavailable,
        FaultKind.THROTTLED: errors.Throttled,
        FaultKind.CUT: errors.Unavailable,
    }
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "iam:ListRoles": client.list_roles,
        "eks:DescribeCluster": lambda: client.describe_cluster("hub-0"),
        "sts:GetCallerIdentity": client.caller_identity,
    }
    for kind, error in passing.items():
        for operation, call in calls.items():
            aws.behaviour.fail(operation, kind)
            with pytest.raises(error):
                await call()
    aws.behaviour.throttles["iam:*"] = Throttle(0.001, 2)
    await client.list_roles()
    await client.list_roles()
    with pytest.raises(errors.Throttled):
        await client.list_roles()
    assert (await client.caller_identity()).account == HUB


async def test_an_aws_that_hangs_has_a_deadline(aws: LocalAws) -> None:
    hasty = AwsClient(REGION, ProcessEnv(aws.environ(REGION)), FixedCredentials(await aws.administrator(HUB)), seconds=0.3)
    aws.behaviour.fail("iam:ListRoles", FaultKind.HANG)
    try:
        with pytest.raises(errors.Unavailable):
            await hasty.list_roles()
    finally:
        await hasty.close()


async def test_a_trust_in_somebody_who_is_not_there_is_malformed(client: AwsClient) -> None:
    absent = RoleNames(PAIR.hub, parse_cluster_arn(f"arn:aws:eks:{REGION}:{MANAGED}:cluster/absent"))
    with pytest.raises(errors.Malformed):
        await client.create_role(absent.hub_role, policies.hub_trust(absent), {})
    with pytest.raises(errors.InvalidParameter):
        await client.create_role("no name", policies.hub_trust(PAIR), {})


async def test_a_cluster_without_entries_is_an_invalid_request(aws: LocalAws, client: AwsClient) -> None:
    await aws.register_cluster(ClusterDescription(str(PAIR.hub), "https://127.0.0.1:1", b"PEM", "CONFIG_MAP", ""))
    with pytest.raises(errors.InvalidRequest):
        await client.create_access_entry("hub-0", ENTRY)
