"""The hub's driver on the local AWS, as a user who may do what `clusteradm aws prerequisites hub` prints, and nothing else.

What is printed is enough, and no action of it is too many: without any one of them a cluster's life does not come to its end. How
many calls a cluster costs is counted where they arrive.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from muster.aws import policies
from muster.aws.client import AwsClient
from muster.aws.identity import connect
from muster.aws.interfaces import ClusterDescription, PolicyDocument
from muster.aws.process_env import ProcessEnv
from muster.fleet.aws import LocalAws
from muster.registration.kinds import MANAGED_CLUSTERS
from tests.support.fake_aws import FakeAws
from tests.support.local_aws import Botocore, allow, local_aws, policy, trusting
from tests.unit.registration.hub.clusters.aws_play import HUB, AwsPlay, pair
from tests.unit.registration.hub.conftest import Play

REFUSALS = ("AccessDenied", "AccessDeniedException")
ASKED_ONCE = "eks:DescribeCluster"
"""The authentication mode, for all clusters."""


class LocalPlay(AwsPlay):
    """The hub's driver, and the AWS it really asks."""

    def __init__(self, play: Play, local: LocalAws, admin: Botocore) -> None:
        super().__init__(play, FakeAws())
        self.local = local
        self.admin = admin
        self.process_env = ProcessEnv()

    async def allow(self, access: PolicyDocument) -> None:
        """What the hub may do on AWS."""
        creator = await self.local.create_user(HUB.account, "creator", access)
        self.process_env = ProcessEnv(self.local.environ(HUB.region, creator))

    def counted(self) -> list[str]:
        """Operations of the driver since the last time, the one that is asked once apart."""
        found = [one.operation for one in self.local.calls if "/creator" in one.caller and one.operation != ASKED_ONCE]
        self.local.calls.clear()
        return found

    async def until_nothing_left(self) -> None:
        async def probe() -> bool:
            account = self.local.world.state.accounts[HUB.account]
            entries = self.local.world.state.clusters[str(HUB)].entries
            return not account.roles and not entries and not await self.records() and len(await self.entries()) == 1

        await self.play.until(probe)

    async def remap(self, mode: str) -> None:
        await self.local.register_cluster(ClusterDescription(str(HUB), "https://127.0.0.1:1", b"PEM", mode, ""))


@pytest.fixture
async def site(play: Play, tmp_path: Path) -> AsyncIterator[LocalPlay]:
    async with local_aws(tmp_path / "aws") as aws:
        spokes = Botocore(aws, await aws.administrator("222222222222"))
        for number in range(3):
            trust = trusting({"AWS": "222222222222"})
            await spokes.iam("create_role", RoleName=pair(number).managed_role, AssumeRolePolicyDocument=trust)
        found = LocalPlay(play, aws, Botocore(aws, await aws.administrator(HUB.account)))
        await found.remap("API_AND_CONFIG_MAP")
        await found.prepare()
        clients: list[AwsClient] = []

        await found.allow(policies.creator_access(HUB, entries=True))

        def connected() -> AwsClient:
            clients.append(connect(found.process_env, HUB.region))
            return clients[-1]

        found.connected = connected
        yield found
        for client in clients:
            await client.close()


def actions(document: PolicyDocument) -> set[str]:
    def listed(found: str | list[str]) -> Iterable[str]:
        return [found] if isinstance(found, str) else found

    return {action for statement in document["Statement"] for action in listed(statement["Action"])}


async def comes_and_goes(site: LocalPlay) -> None:
    async with site.running():
        await site.cluster()
        await site.accepted()
        assert len(site.counted()) <= 3
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.play.until_gone(MANAGED_CLUSTERS, "c0")
        await site.until_nothing_left()
        assert len(site.counted()) <= 5


async def test_calls_of_a_cluster_by_aws_auth(site: LocalPlay):
    await comes_and_goes(site)


async def test_calls_of_a_cluster_by_access_entry(site: LocalPlay):
    await site.remap("API")
    await comes_and_goes(site)


async def whole_life(site: LocalPlay) -> None:
    """Of a cluster by access entry: accepted; all of it changed by others and set right; gone with what others put there."""
    role = {"RoleName": pair().hub_role}
    await site.remap("API")
    async with site.running():
        await site.cluster()
        await site.accepted()
        # Half a day later others have changed all of it.
        await site.admin.iam("update_assume_role_policy", **role, PolicyDocument=trusting({"AWS": HUB.account}))
        await site.admin.iam("untag_role", **role, TagKeys=["open-cluster-management.io/cluster-name"])
        await site.admin.iam("delete_role_policy", **role, PolicyName=policies.ACCESS_POLICY)
        entry = {"clusterName": HUB.name, "principalArn": pair().hub_role_arn}
        await site.admin.eks("update_access_entry", **entry, kubernetesGroups=["others"])
        await site.play.clock.advance(12 * 3600)

        async def mended() -> bool:
            found = (await site.admin.iam("get_role", **role))["Role"]
            there = (await site.admin.eks("describe_access_entry", **entry))["accessEntry"]
            inline = (await site.admin.iam("list_role_policies", **role))["PolicyNames"]
            tags = {one["Key"] for one in (await site.admin.iam("list_role_tags", **role))["Tags"]}
            trust = found["AssumeRolePolicyDocument"] == policies.hub_trust(pair())
            tagged = "open-cluster-management.io/cluster-name" in tags
            return trust and tagged and bool(inline) and there["kubernetesGroups"] == ["open-cluster-management:c0"]

        await site.play.until(mended)
        # Others put policies on it, and then it goes.
        foreign = (await site.admin.iam("create_policy", PolicyName="f", PolicyDocument=policy(allow("s3:*"))))["Policy"]["Arn"]
        await site.admin.iam("attach_role_policy", **role, PolicyArn=foreign)
        await site.admin.iam("put_role_policy", **role, PolicyName="foreign", PolicyDocument=policy(allow("s3:*")))
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.play.until_gone(MANAGED_CLUSTERS, "c0")
        await site.until_nothing_left()


PRINTED = actions(policies.creator_access(HUB, entries=True))


async def test_what_is_printed_is_enough_and_nothing_of_it_too_much(site: LocalPlay):
    await whole_life(site)
    ours = [one for one in site.local.calls if "/creator" in one.caller]
    asked = {action for one in ours for action in one.needed}
    assert [one.operation for one in ours if one.result in REFUSALS] == []
    assert PRINTED - asked == set(), "printed and never asked for"
    assert asked - PRINTED == set(), "asked for and not printed"


def without(document: PolicyDocument, action: str) -> PolicyDocument:
    statements = [{**one, "Action": sorted(actions({"Statement": [one]}) - {action})} for one in document["Statement"]]
    return {**document, "Statement": [one for one in statements if one["Action"]]}


@pytest.mark.parametrize("action", sorted(PRINTED))
async def test_without_any_one_action_a_cluster_does_not_live_and_go(site: LocalPlay, action: str):
    await site.allow(without(policies.creator_access(HUB, entries=True), action))
    life = asyncio.create_task(whole_life(site))

    async def refused() -> bool:
        return life.done() or any(action in one.needed and one.result in REFUSALS for one in list(site.local.calls))

    try:
        await site.play.until(refused)
        # What is refused is tried again, if at all, and refused again.
        for _ in range(50):
            await asyncio.sleep(0.002)
        assert not life.done() or life.exception() is not None, "it came to its end without"
        assert any(action in one.needed and one.result in REFUSALS for one in list(site.local.calls))
    finally:
        life.cancel()
        while not life.done():
            # A call that waits for its turn waits by this clock.
            await site.play.clock.advance(1.0)
            await asyncio.sleep(0.002)
        await asyncio.gather(life, return_exceptions=True)


async def test_a_managed_clusters_role_needs_its_one_action(site: LocalPlay):
    await site.admin.iam("create_role", RoleName=pair(9).hub_role, AssumeRolePolicyDocument=trusting({"AWS": HUB.account}))
    agents = Botocore(site.local, await site.local.administrator(pair(9).managed.account))
    tags = [{"Key": key, "Value": value} for key, value in pair(9).tags.items()]
    trust = trusting({"AWS": pair(9).managed.account})
    await agents.iam("create_role", RoleName=pair(9).managed_role, AssumeRolePolicyDocument=trust, Tags=tags)
    hub_trust = json.dumps(policies.hub_trust(pair(9)))
    await site.admin.iam("update_assume_role_policy", RoleName=pair(9).hub_role, PolicyDocument=hub_trust)
    as_agent = await agents.assume(pair(9).managed_role_arn)
    wanted = {"RoleArn": pair(9).hub_role_arn, "RoleSessionName": "test"}
    printed = policies.managed_access(pair(9))
    assert actions(printed) == {"sts:AssumeRole"}
    assert await as_agent.code("sts", "assume_role", **wanted) == "AccessDenied"
    own = {"RoleName": pair(9).managed_role, "PolicyName": policies.ACCESS_POLICY}
    await agents.iam("put_role_policy", **own, PolicyDocument=json.dumps(printed))
    assert await as_agent.code("sts", "assume_role", **wanted) == "OK"
