"""Roles of a hub that nobody claims any more: found by tag and record, and removed with what goes with them; nobody else's are."""

import pytest

from muster.administration.aws.cleanup import remove, unclaimed
from muster.aws import errors, policies
from muster.aws.role_names import CLUSTER_TAG, HUB_ARN_TAG
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE
from tests.unit.registration.hub.clusters.aws_play import HUB, AwsPlay, open_aws_play, pair
from tests.unit.registration.hub.conftest import Play


@pytest.fixture
async def site(play: Play) -> AwsPlay:
    return await open_aws_play(play)


async def cleaned(site: AwsPlay) -> list[str]:
    found = await unclaimed(site.play.admin, site.aws, HUB, HUB_NAMESPACE)
    said: list[str] = []
    for one in found:
        await remove(site.play.admin, site.aws, HUB, one, HUB_NAMESPACE, said.append)
    assert not await unclaimed(site.play.admin, site.aws, HUB, HUB_NAMESPACE)
    return [one.role for one in found]


@pytest.mark.parametrize("mode", ["API", "CONFIG_MAP"])
async def test_what_a_hub_without_an_identity_had_to_leave(site: AwsPlay, mode: str):
    site.aws.mode = mode
    async with site.running():
        await site.cluster()
        await site.cluster(1)
        await site.accepted("c0")
        await site.accepted("c1")
    site.aws.fault = lambda operation: errors.NoIdentity(operation, "", "none")
    async with site.running():
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.play.until_gone(MANAGED_CLUSTERS, "c0")
    site.aws.fault = lambda operation: None
    assert await cleaned(site) == [pair().hub_role]
    assert set(site.aws.roles) == set(await site.records()) == {pair(1).hub_role}
    assert len(site.aws.entries) + len(await site.entries()) == 2


async def test_a_role_without_a_record_and_one_with_somebodys_policy(site: AwsPlay):
    await site.aws.create_role(pair().hub_role, policies.hub_trust(pair()), {HUB_ARN_TAG: str(HUB), CLUSTER_TAG: "c0"})
    site.aws.attached[pair().hub_role] = ["arn:aws:iam::aws:policy/ReadOnlyAccess"]
    assert await cleaned(site) == [pair().hub_role]
    assert not site.aws.roles


async def test_nobody_elses_roles_are_touched(site: AwsPlay):
    other = {HUB_ARN_TAG: "arn:aws:eks:eu-central-1:111111111111:cluster/hub-0"}
    await site.aws.create_role(pair().hub_role, policies.hub_trust(pair()), other)
    await site.aws.create_role(pair(1).hub_role, policies.hub_trust(pair(1)), {})
    await site.aws.create_role("nodes", policies.hub_trust(pair(1)), {HUB_ARN_TAG: str(HUB)})
    assert await cleaned(site) == []
    assert len(site.aws.roles) == 3
