"""A cluster's AWS identity made by whoever accepts it: on record, undone when a later step is refused, or left to the hub."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.aws import errors, policies
from muster.aws.process_env import ProcessEnv
from muster.aws.role_names import HUB_ARN_TAG
from muster.registration.drivers.awsirsa.administrator import prepare
from muster.registration.drivers.awsirsa.options import hub_side
from muster.registration.drivers.errors import Unfit
from muster.registration.drivers.interfaces import AcceptanceContext, Undo
from muster.registration.kinds import MANAGED_CLUSTERS
from tests.support.fake_aws import FakeAws, NoAnswer
from tests.unit.registration.hub.clusters.aws_play import HUB, AwsPlay, pair
from tests.unit.registration.hub.conftest import Play


class Site(AwsPlay):
    def __init__(self, play: Play) -> None:
        super().__init__(play, FakeAws())
        self.said: list[str] = []

    async def prepare_cluster(self, name: str = "c0") -> Undo | None:
        found = ManagedCluster.decode(await self.play.admin.get(MANAGED_CLUSTERS, name))
        accepting = AcceptanceContext(self.play.admin, None, ProcessEnv(), self.said.append)
        return await prepare(found, hub_side(self.options), lambda: self.aws, accepting)


@pytest.fixture
async def site(play: Play) -> Site:
    found = Site(play)
    await found.prepare()
    await found.cluster(accepts=False)
    return found


@pytest.mark.parametrize("mode", ["API", "CONFIG_MAP"])
async def test_made_and_undone(site: Site, mode: str):
    site.aws.mode = mode
    undo = await site.prepare_cluster()
    assert undo is not None
    assert site.aws.roles[pair().hub_role].trust == policies.hub_trust(pair())
    assert (await site.records())[pair().hub_role]["madeBy"] == "administrator"
    assert (len(site.aws.entries), len(await site.entries())) == ((1, 1) if mode == "API" else (0, 2))
    await undo()
    await site.until_nothing_left()


async def test_the_hub_takes_over_what_an_administrator_made(site: Site):
    await site.prepare_cluster()
    site.aws.counted()
    async with site.running():
        await site.play.accept("c0")
        await site.accepted()
        assert site.aws.counted() == ["GetRole", "GetRolePolicy"]
        await site.play.deny("c0")
        await site.until_nothing_left()


def refusing(operation: str) -> Callable[[str], Exception | None]:
    return lambda asked: errors.AccessDenied(asked, "AccessDenied", "no") if asked == operation else None


@pytest.mark.parametrize("operation", ["CreateRole", "PutRolePolicy", "CreateAccessEntry"])
async def test_who_may_not_leaves_nothing_and_the_hub_does_it(site: Site, operation: str):
    site.aws.mode = "API"
    site.aws.fault = refusing(operation)
    assert await site.prepare_cluster() is None
    assert "the hub creates the AWS identity" in site.said[-1]
    await site.until_nothing_left()
    site.options |= {"aws-identity": ("administrator",)}
    with pytest.raises(Unfit, match="AccessDenied"):
        await site.prepare_cluster()
    await site.until_nothing_left()


@pytest.mark.parametrize("choice", ["auto", "administrator"])
@pytest.mark.parametrize("nobody", ["another account", "no identity"])
async def test_whose_identity_is_never_used(site: Site, choice: str, nobody: str):
    site.options |= {"aws-identity": (choice,)}
    if nobody == "another account":
        site.aws.account = "333333333333"
    else:
        site.aws.fault = lambda operation: errors.NoIdentity(operation, "", "none")
    if choice == "auto":
        assert await site.prepare_cluster() is None
    else:
        with pytest.raises(Unfit, match=r"333333333333|no AWS identity") as refused:
            await site.prepare_cluster()
        assert HUB.account in refused.value.remedy
    assert site.aws.counted() == ["GetCallerIdentity"]
    assert not await site.records()


async def test_nothing_is_done_where_the_hub_does_it_all(site: Site):
    site.options |= {"aws-identity": ("hub",)}
    assert await site.prepare_cluster() is None
    assert site.aws.counted() == []


async def test_the_role_of_another_cluster_is_refused(site: Site):
    await site.prepare_cluster()
    await site.cluster(0, name="thief", accepts=False)
    with pytest.raises(Unfit, match="cluster c0"):
        await site.prepare_cluster("thief")
    assert len(site.aws.roles) == 1


async def test_again_changes_nothing(site: Site):
    await site.prepare_cluster()
    before: tuple[Any, ...] = (dict(site.aws.roles), await site.records(), await site.entries())
    undo = await site.prepare_cluster()
    assert undo is not None
    await undo()
    assert (dict(site.aws.roles), await site.records(), await site.entries()) == before


async def test_whatever_comes_of_it_every_client_is_closed(site: Site):
    opened: list[FakeAws] = []
    closed: list[FakeAws] = []

    class Counted(FakeAws):
        async def close(self) -> None:
            closed.append(self)

    site.aws = Counted()

    def connect() -> FakeAws:
        opened.append(site.aws)
        return site.aws

    found = ManagedCluster.decode(await site.play.admin.get(MANAGED_CLUSTERS, "c0"))
    accepting = AcceptanceContext(site.play.admin, None, ProcessEnv(), site.said.append)

    async def attempt() -> Undo | None:
        return await prepare(found, hub_side(site.options), connect, accepting)

    for operation in ("GetCallerIdentity", "CreateRole", "PutRolePolicy"):
        site.aws.fault = refusing(operation)
        assert await attempt() is None
        assert len(opened) == len(closed)
    site.aws.fault = lambda operation: None
    site.aws.account = "333333333333"
    assert await attempt() is None
    site.aws.account = HUB.account
    undo = await attempt()
    assert undo is not None
    assert len(opened) == len(closed) == 5
    await undo()
    assert len(opened) == len(closed) == 6
    await site.until_nothing_left()


CALLS = ("DescribeCluster", "CreateRole", "PutRolePolicy", "CreateAccessEntry")


def once(operation: str, failure: Exception) -> Callable[[str], Exception | None]:
    left = [failure]
    return lambda asked: left.pop() if asked == operation and left else None


@pytest.mark.parametrize("operation", CALLS)
async def test_a_call_that_fails_leaves_nothing_and_the_next_accept_does_it(site: Site, operation: str):
    """Where the deed was done and not told, too."""
    site.aws.mode = "API"
    site.options |= {"aws-identity": ("administrator",)}
    faults = [("fault", errors.Throttled), ("fault", errors.Unavailable), ("after", errors.Unavailable)]
    for when, kind in faults[:2] if operation == "DescribeCluster" else faults:
        setattr(site.aws, when, once(operation, kind(operation, "", "x")))
        with pytest.raises(Unfit, match=operation):
            await site.prepare_cluster()
        await site.until_nothing_left()
    assert await site.prepare_cluster() is not None
    assert len(site.aws.entries) == 1


async def test_a_role_of_another_hub_stays_when_an_answer_is_lost(site: Site):
    other = {HUB_ARN_TAG: "arn:aws:eks:eu-central-1:111111111111:cluster/hub-0"}
    await site.aws.create_role(pair().hub_role, policies.hub_trust(pair()), other)
    site.options |= {"aws-identity": ("administrator",)}
    site.aws.fault = once("CreateRole", errors.Unavailable("CreateRole", "", "x"))
    with pytest.raises(Unfit, match="CreateRole"):
        await site.prepare_cluster()
    assert site.aws.roles[pair().hub_role].tags == other


@pytest.mark.parametrize("operation", CALLS[1:])
async def test_what_a_killed_accept_left_is_finished_by_the_next_one(site: Site, operation: str):
    site.aws.mode = "API"
    site.options |= {"aws-identity": ("administrator",)}
    for when in ("fault", "after"):
        setattr(site.aws, when, once(operation, NoAnswer()))
        async with killed_at(site, operation), site.running():
            assert await site.prepare_cluster() is not None
            await site.play.accept("c0")
            await site.accepted()
            assert site.aws.entries[pair().hub_role_arn][1] == site.aws.roles[pair().hub_role].role_id
            await site.play.deny("c0")
            await site.until_nothing_left()


@asynccontextmanager
async def killed_at(site: Site, operation: str) -> AsyncIterator[None]:
    """An `accept` that makes this call, which is never answered, and goes no further."""
    site.aws.counted()
    killed = asyncio.ensure_future(site.prepare_cluster())
    try:

        async def reached() -> bool:
            return operation in site.aws.calls

        await site.play.until(reached)
        yield
    finally:
        killed.cancel()
        await asyncio.gather(killed, return_exceptions=True)


async def test_what_a_killed_accept_left_the_hub_finishes_where_it_may(site: Site):
    site.aws.fault = once("CreateRole", NoAnswer())
    async with killed_at(site, "CreateRole"), site.running():
        await site.play.accept("c0")
        await site.accepted()
        assert site.aws.roles[pair().hub_role].trust == policies.hub_trust(pair())
        assert len(await site.entries()) == 2
