"""A hub with the driver for AWS identities, on an API server in this process and an AWS that the test makes fail."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from muster.aws.arns import parse_cluster_arn
from muster.aws.interfaces import Aws
from muster.aws.role_names import RoleNames
from muster.registration.drivers.awsirsa import PROFILE
from muster.registration.drivers.awsirsa.awsauth import mapped_roles
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.drivers.awsirsa.hub import AwsHub
from muster.registration.drivers.awsirsa.records import RECORD_LABEL
from muster.registration.drivers.interfaces import HubContext
from muster.registration.drivers.ownership import claimed_by_others
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.clusters.auto_acceptance import AutoAcceptance
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.install import driver_permissions
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.install import apply_all
from tests.support.fake_aws import FakeAws
from tests.unit.registration.hub.conftest import Play

Annotations = Mapping[str, str]
HUB = parse_cluster_arn("arn:aws:eks:us-west-2:111111111111:cluster/hub-0")
MANAGED = "arn:aws:eks:us-west-2:222222222222:cluster/managed-"
NODES = "- rolearn: arn:aws:iam::111111111111:role/nodes # ours\n  username: system:node:{{EC2PrivateDNSName}}\n"


def pair(number: int = 0) -> RoleNames:
    return RoleNames(HUB, parse_cluster_arn(f"{MANAGED}{number}"))


class AwsPlay:
    """A hub with this driver, on an AWS of its own."""

    def __init__(self, play: Play, aws: FakeAws) -> None:
        self.play = play
        self.aws = aws
        self.options: dict[str, tuple[str, ...]] = {"hub-cluster-arn": (str(HUB),)}
        self.connected: Callable[[], Aws] = lambda: aws

    async def prepare(self, text: str = NODES) -> None:
        await apply_all(self.play.admin, driver_permissions(HUB_NAMESPACE, [PROFILE.hub_rules(self.options)]), "test")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aws-auth", "namespace": "kube-system"}}
        await self.play.admin.create(CONFIG_MAPS, {**body, "data": {"mapRoles": text, "mapUsers": "- userarn: x\n"}})

    @asynccontextmanager
    async def running(self, *, auto: bool = False) -> AsyncIterator[AwsHub]:
        world = self.play.world(drivers={})
        shared = world.context
        made: list[Any] = []

        def reconsider(name: str) -> None:
            for one in made:
                one.reconsider(name)

        context = HubContext(
            shared.client,
            shared.informers,
            shared.events,
            shared.metrics,
            shared.clock,
            shared.random,
            shared.workers,
            reconsider=reconsider,
            options=self.options,
            claimed=claimed_by_others("awsirsa"),
        )
        driver = AwsHub(context, lambda process_env, hub: self.connected())
        world = HubControllerContext(shared, world.options, {"awsirsa": driver})
        made.append(Acceptance(world))
        if auto:
            made.append(AutoAcceptance(world))
        tasks = [asyncio.create_task(one.run()) for one in (shared.informers, shared.events, driver, *made)]
        try:
            yield driver
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def cluster(self, number: int = 0, *, name: str = "", accepts: bool = True, says: Annotations | None = None) -> None:
        said = says or marked(pair(number))
        await self.play.create_cluster(name or f"c{number}", accepts=accepts, annotations=dict(said))

    async def accepted(self, name: str = "c0") -> None:
        await self.play.until_condition(name, "True", "HubClusterAdminAccepted")

    async def problem(self, name: str, *words: str) -> str:
        async def probe() -> str:
            found = await self.play.condition(name)
            message = str(found.get("message"))
            return message if found.get("status") == "False" and all(word in message for word in words) else ""

        found: str = await self.play.until(probe)
        return found

    async def entries(self) -> list[Any]:
        found = await self.play.admin.get(CONFIG_MAPS, "aws-auth", "kube-system")
        return mapped_roles(found["data"]["mapRoles"])

    async def records(self) -> dict[str, Any]:
        found = await self.play.admin.list(CONFIG_MAPS, HUB_NAMESPACE, label_selector=RECORD_LABEL)
        return {one["metadata"]["name"]: orjson.loads(one["data"]["identity.json"]) for one in found.items}

    async def until_nothing_left(self) -> None:
        async def probe() -> bool:
            return not self.aws.roles and not self.aws.entries and not await self.records() and len(await self.entries()) == 1

        await self.play.until(probe)


async def open_aws_play(play: Play) -> AwsPlay:
    found = AwsPlay(play, FakeAws())
    await found.prepare()
    return found
