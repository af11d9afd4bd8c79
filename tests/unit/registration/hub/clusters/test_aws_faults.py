"""Faults at every call that the hub's driver makes on AWS: the end is always the same, and nothing is left over.

A cluster comes, others change all that was made for it, half a day passes, others attach policies, and it goes: in that life every
call of the driver is made, and one of them fails. Deeds may also be done and not answered, and the hub may be killed at each.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pytest

from muster.aws import errors, policies
from muster.aws.interfaces import AccessEntry
from muster.registration.kinds import MANAGED_CLUSTERS
from tests.support.fake_aws import FakeAws
from tests.support.operating import running
from tests.unit.registration.hub.clusters.aws_play import AwsPlay, open_aws_play, pair
from tests.unit.registration.hub.conftest import Play

READS: Final = (
    "DescribeCluster",
    "GetRole",
    "GetRolePolicy",
    "DescribeAccessEntry",
    "ListAttachedRolePolicies",
    "ListRolePolicies",
)
DEEDS: Final = (
    "CreateRole",
    "PutRolePolicy",
    "CreateAccessEntry",
    "UpdateAssumeRolePolicy",
    "TagRole",
    "UpdateAccessEntry",
    "DeleteAccessEntry",
    "DeleteRolePolicy",
    "DetachRolePolicy",
    "DeleteRole",
)
KILLED: Final = "killed"
FAULTS: Final[dict[str, Callable[[str], BaseException]]] = {
    "throttled": lambda operation: errors.Throttled(operation, "Throttling", "Rate exceeded"),
    "5xx": lambda operation: errors.Unavailable(operation, "ServiceUnavailable", "later"),
    "timeout": lambda operation: TimeoutError(),
    # Of a process that dies there: whoever made the call goes no further.
    KILLED: lambda operation: asyncio.CancelledError(),
}


@dataclass
class Strikes:
    """What happens to one operation, call by call: before the deed, or after it."""

    operation: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    killed: asyncio.Event = field(default_factory=asyncio.Event)

    def meet(self, aws: FakeAws) -> None:
        aws.fault, aws.after = partial(self._strike, self.before), partial(self._strike, self.after)

    def _strike(self, left: list[str], operation: str) -> BaseException | None:
        if operation != self.operation or not left or (left is self.after and self.before):
            return None
        kind = left.pop(0)
        if kind is KILLED:
            self.killed.set()
        return FAULTS[kind](operation)


@pytest.fixture
async def site(play: Play) -> AwsPlay:
    made = await open_aws_play(play)
    made.aws.mode = "API"
    return made


@asynccontextmanager
async def hub_running(site: AwsPlay, killed: asyncio.Event) -> AsyncIterator[None]:
    """A hub that is there again whenever it was killed."""

    async def keep() -> None:
        while True:
            async with site.running():
                await killed.wait()
                killed.clear()

    async with running(keep()):
        yield


async def lives(site: AwsPlay) -> None:
    """From nothing to nothing."""
    aws, role, arn = site.aws, pair().hub_role, pair().hub_role_arn
    await site.cluster()
    await site.accepted()
    aws.roles[role] = replace(aws.roles[role], trust=policies.hub_trust(pair(1)), tags={})
    aws.inline[role].clear()
    entry, role_id = aws.entries[arn]
    aws.entries[arn] = (AccessEntry(arn, "somebody", ("others",)), role_id)
    await site.play.clock.advance(12 * 3600)

    async def mended() -> bool:
        found = aws.roles[role]
        as_it_was = found.trust == policies.hub_trust(pair()) and "open-cluster-management.io/cluster-name" in found.tags
        return as_it_was and bool(aws.inline[role]) and aws.entries[arn][0].groups == entry.groups

    await site.play.until(mended)
    await site.play.at_rest()
    aws.attached[role] = ["arn:aws:iam::aws:policy/ReadOnlyAccess"]
    aws.inline[role]["foreign"] = policies.hub_access(pair().hub)
    await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
    await site.play.until_gone(MANAGED_CLUSTERS, "c0")
    await site.until_nothing_left()
    assert not any(aws.inline.values())
    assert not any(aws.attached.values())


@pytest.mark.parametrize("operation", READS + DEEDS)
async def test_whatever_happens_to_a_call_the_end_is_the_same(site: AwsPlay, operation: str):
    strikes = Strikes(operation, list(FAULTS), ["5xx", KILLED] if operation in DEEDS else [])
    strikes.meet(site.aws)
    async with hub_running(site, strikes.killed):
        while strikes.before or strikes.after:
            left = len(strikes.before) + len(strikes.after)
            await lives(site)
            assert len(strikes.before) + len(strikes.after) < left, "the call was never made"


@pytest.mark.parametrize("after", ["nothing", "5xx", KILLED])
async def test_an_entry_of_a_role_that_is_gone_is_made_again_for_the_new_one(site: AwsPlay, after: str):
    """An entry is bound to the role's id, so the one that is there lets nobody in; also where nobody was told of the new role."""
    aws, role, arn = site.aws, pair().hub_role, pair().hub_role_arn
    strikes = Strikes("CreateRole")
    async with hub_running(site, strikes.killed):
        await site.cluster()
        await site.accepted()
        del aws.roles[role], aws.inline[role]
        strikes.after = [] if after == "nothing" else [after]
        strikes.meet(aws)
        await site.play.clock.advance(12 * 3600)

        async def mended() -> bool:
            found = aws.roles.get(role)
            return found is not None and arn in aws.entries and aws.entries[arn][1] == found.role_id and bool(aws.inline.get(role))

        await site.play.until(mended)
        assert not strikes.after


async def test_an_entry_follows_a_role_that_somebody_made_again(site: AwsPlay):
    aws, role, arn = site.aws, pair().hub_role, pair().hub_role_arn
    async with site.running():
        await site.cluster()
        await site.accepted()
        aws.roles[role] = replace(aws.roles[role], role_id="AROAnew")
        await site.play.clock.advance(12 * 3600)

        async def mended() -> bool:
            return arn in aws.entries and aws.entries[arn][1] == "AROAnew"

        await site.play.until(mended)
