"""Attacks on the hub's API server by whoever has a token, or something like one: each is refused for its own reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.aws import policies
from muster.aws.interfaces import AwsCredentials
from muster.aws.token_validation import Reason
from muster.aws.tokens import make_token
from muster.runtime.client.errors import Unauthorized
from tests.support.https_server import Answer, HttpsServer
from tests.support.local_aws import REGION, Botocore, make_hub_role
from tests.support.token_attacks import ATTACKS, STRICTER, Signer, token_of
from tests.unit.fleet.aws.registration_stage import HUB, Stage, until


async def test_a_token_of_an_ended_session_is_refused_however_young(stage: Stage) -> None:
    await stage.map_by_entry()
    assert not await stage.refused(await stage.token(at=datetime.now(UTC) - timedelta(minutes=10)))
    stage.aws.behaviour.longest_session = 1
    session = await stage.session()
    stage.aws.behaviour.longest_session = None
    short = make_token(session, REGION, "hub-0", datetime.now(UTC), stage.aws.url).text
    await until(stage, short, refused=True)
    assert await stage.reason(short) == "ExpiredToken"


async def test_an_attack_with_a_token_is_refused_for_its_own_reason(stage: Stage) -> None:
    """In one test, because a stage costs more than all of these."""
    await stage.map_by_entry()
    signer = Signer(await stage.session(), stage.aws.url)
    assert not await stage.refused(token_of(signer.url()))
    for name, attack in {**ATTACKS, **STRICTER}.items():
        token = attack.token(signer)
        assert await stage.refused(token), name
        assert await stage.reason(token) == attack.reason, name


async def test_nobody_asks_a_host_that_plays_sts(stage: Stage) -> None:
    """The impostor says what an attacker wants to be; it is never asked."""
    await stage.map_by_entry()
    identity = {"Account": HUB, "Arn": f"arn:aws:sts::{HUB}:assumed-role/{stage.pair.hub_role}/x", "UserId": "AROA:x"}
    with HttpsServer(lambda _: Answer({"GetCallerIdentityResponse": {"GetCallerIdentityResult": identity}})) as impostor:
        own = AwsCredentials("AKIAEVIL", "evil")
        token = make_token(own, REGION, "hub-0", datetime.now(UTC), impostor.url).text
        assert await stage.refused(token)
        assert await stage.reason(token) is Reason.HOST
        assert impostor.received == []


async def test_a_token_of_nobody_that_is_mapped_is_refused(stage: Stage) -> None:
    """Neither the managed role, which is a step before, nor the account's administrator is anybody in the hub."""
    await stage.map_by_entry()
    agent = (await stage.agent()).credentials
    assert agent is not None
    for credentials in (agent, await stage.aws.administrator(HUB)):
        token = make_token(credentials, REGION, "hub-0", datetime.now(UTC), stage.aws.url).text
        assert await stage.refused(token)
        assert await stage.reason(token) == ""


async def test_a_hub_role_made_again_is_nobody_to_its_entry(stage: Stage) -> None:
    await stage.map_by_entry()
    admin = Botocore(stage.aws, await stage.aws.administrator(HUB))
    await admin.iam("delete_role_policy", RoleName=stage.pair.hub_role, PolicyName=policies.ACCESS_POLICY)
    await admin.iam("delete_role", RoleName=stage.pair.hub_role)
    await make_hub_role(stage.aws, stage.pair)
    assert await stage.refused(await stage.token())
    await admin.eks("delete_access_entry", clusterName="hub-0", principalArn=stage.pair.hub_role_arn)
    await stage.map_by_entry()
    assert not await stage.refused(await stage.token())


async def test_an_entry_that_is_removed_lets_nobody_in(stage: Stage) -> None:
    await stage.map_by_entry()
    token = await stage.token()
    assert not await stage.refused(token)
    admin = Botocore(stage.aws, await stage.aws.administrator(HUB))
    await admin.eks("delete_access_entry", clusterName="hub-0", principalArn=stage.pair.hub_role_arn)
    assert await stage.refused(token)


async def test_the_hubs_token_is_nothing_on_the_managed_cluster(stage: Stage) -> None:
    await stage.map_by_entry()
    with pytest.raises(Unauthorized):
        await stage.user(await stage.token(), "managed")
