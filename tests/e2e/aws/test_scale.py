"""Many clusters on an AWS that takes ten calls a second and one that hangs, and clusters that vanish while no hub runs.

All of a hub's controllers, in this process, with the rights of their account; a local AWS over TLS, with its own throttle, and the
time it takes. MUSTER_AWS_CLUSTERS says how many clusters come (100 in full); what it came to is printed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from muster.api.cluster.v1 import ACCEPTED
from muster.apiserver.server import ApiServer
from muster.aws import policies
from muster.aws.interfaces import ClusterDescription
from muster.aws.process_env import ProcessEnv
from muster.embedded.in_process import InProcessClient
from muster.fleet.aws import FaultKind, LocalAws, Throttle
from muster.machinery.authentication import UserInfo
from muster.registration.drivers.awsirsa import PROFILE
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.drivers.awsirsa.records import RECORD_LABEL
from muster.registration.hub.install import ACCOUNT, driver_permissions, install
from muster.registration.hub.manager import Hub
from muster.registration.hub.options import HubOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.install import apply_all
from tests.support.aws_site import HUB, HUB_ACCOUNT, MANAGED_ACCOUNT, arn, pair
from tests.support.in_process import serving
from tests.support.local_aws import REGION, Botocore, local_aws, trusting
from tests.support.operating import Observed, running
from tests.support.sites import embedded_only

pytestmark = [embedded_only, pytest.mark.timeout(300)]

CLUSTERS = int(os.environ.get("MUSTER_AWS_CLUSTERS", "10"))
RATE = 10.0
"""Calls per second that AWS takes of an account."""
OPTIONS = {"hub-cluster-arn": (str(arn(HUB)),)}


class Site:
    def __init__(self, server: ApiServer, aws: LocalAws, creator: ProcessEnv) -> None:
        self.server = server
        self.aws = aws
        self._creator = creator
        self.admin = InProcessClient(server.client(server.clusters["hub"]), "hub")
        self.seen = Observed(self.admin)

    def hub(self) -> Hub:
        account = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", groups=("system:authenticated",))
        client = InProcessClient(self.server.client(self.server.clusters["hub"], account), "hub")
        options = HubOptions(drivers=("csr", "awsirsa"), driver_options={"awsirsa": OPTIONS})
        return Hub(client, options, process_env=self._creator)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.hub().run()):
            yield

    async def come(self, name: str, *, on_aws: bool = True) -> None:
        kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
        metadata = {"name": name, "annotations": dict(marked(pair(name))) if on_aws else {}}
        await self.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": metadata, "spec": {"hubAcceptsClient": True}})

    async def accepted(self) -> set[str]:
        """Which clusters are."""
        found = (await self.admin.list(MANAGED_CLUSTERS)).items
        states = {one["metadata"]["name"]: (one.get("status") or {}).get("conditions") or () for one in found}
        return {name for name, said in states.items() if any(one["type"] == ACCEPTED and one["status"] == "True" for one in said)}

    async def nothing_left(self) -> bool:
        records = (await self.admin.list(CONFIG_MAPS, HUB_NAMESPACE, label_selector=RECORD_LABEL)).items
        mapped = (await self.admin.get(CONFIG_MAPS, "aws-auth", "kube-system")).get("data") or {}
        roles = self.aws.world.state.accounts[HUB_ACCOUNT].roles
        return not records and not roles and "ocm-hub" not in mapped.get("mapRoles", "")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving("hub"))
        aws = await stack.enter_async_context(local_aws(tmp_path / "aws"))
        mode = "API_AND_CONFIG_MAP"
        await aws.register_cluster(ClusterDescription(str(arn(HUB)), server.cluster_url("hub"), server.ca_pem, mode, ""))
        spokes = Botocore(aws, await aws.administrator(MANAGED_ACCOUNT))
        for name in names():
            trust = trusting({"AWS": MANAGED_ACCOUNT})
            await spokes.iam("create_role", RoleName=pair(name).managed_role, AssumeRolePolicyDocument=trust)
        creator = await aws.create_user(HUB_ACCOUNT, "creator", policies.creator_access(arn(HUB), entries=True))
        made = Site(server, aws, ProcessEnv(aws.environ(REGION, creator)))
        await install(made.admin)
        await apply_all(made.admin, driver_permissions(HUB_NAMESPACE, [PROFILE.hub_rules(OPTIONS)]), "test")
        metadata = {"name": "aws-auth", "namespace": "kube-system"}
        await made.admin.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        aws.behaviour.throttles["*"] = Throttle(RATE, burst=RATE)
        aws.calls.clear()
        yield made


def names() -> list[str]:
    return [f"managed-{number}" for number in range(CLUSTERS)]


async def calls_until(site: Site, probe: Callable[[], Awaitable[bool]], what: str) -> int:
    """How many AWS has answered until then; that and its pace say how long it takes on a machine that does nothing else."""
    began = time.monotonic()
    await site.seen.until(probe, what, 30 + CLUSTERS)
    took = time.monotonic() - began
    refused = sum(one.result == "Throttling" for one in site.aws.calls)
    calls = len(site.aws.calls)
    print(f"\n{CLUSTERS} clusters, {what}: {took:.1f} s, {calls} calls, {refused} throttled")
    site.aws.calls.clear()
    assert refused <= calls // 2, "whoever asks too fast is refused"
    return calls - refused


async def test_all_are_accepted_and_leave_at_the_pace_that_aws_takes(site: Site) -> None:
    async def all_in() -> bool:
        await asyncio.sleep(0.05)
        return await site.accepted() == set(names())

    async def all_out() -> bool:
        await asyncio.sleep(0.05)
        return not (await site.admin.list(MANAGED_CLUSTERS)).items and await site.nothing_left()

    async with site.running():
        await asyncio.gather(*(site.come(name) for name in names()))
        assert await calls_until(site, all_in, "accepted") <= 2 * CLUSTERS + 2, "two calls for each, and one for all"
        await asyncio.gather(*(site.admin.delete(MANAGED_CLUSTERS, name) for name in names()))
        assert await calls_until(site, all_out, "gone") <= 2 * CLUSTERS + 2, "two calls for each"


async def test_while_aws_hangs_a_cluster_with_a_certificate_is_accepted_as_fast_as_ever(site: Site) -> None:
    async def accepts(name: str) -> float:
        began = time.monotonic()
        await site.come(name, on_aws=False)
        await site.seen.until_condition(MANAGED_CLUSTERS, name, ACCEPTED, "True", seconds=20)
        return time.monotonic() - began

    async with site.running():
        before = [await accepts(f"before-{number}") for number in range(3)]
        site.aws.behaviour.fail("*", FaultKind.HANG, times=None)
        await asyncio.gather(*(site.come(name) for name in names()))
        await site.seen.until_condition(MANAGED_CLUSTERS, names()[-1], ACCEPTED, "False", "Pending")
        during = [await accepts(f"during-{number}") for number in range(3)]
        print(f"\naccepted by certificate: {sorted(before)[1]:.3f} s, while AWS hangs {sorted(during)[1]:.3f} s")
        assert sorted(during)[1] < 5 * sorted(before)[1] + 5
        assert not await site.accepted() & set(names())
        # Else whoever waits for an answer holds the hub up for its grace period.
        await site.aws.stop(grace=0.0)


async def test_clusters_that_vanish_while_no_hub_runs_leave_nothing(site: Site) -> None:
    async def all_in() -> bool:
        await asyncio.sleep(0.05)
        return await site.accepted() == set(names())

    async def none_left() -> bool:
        await asyncio.sleep(0.05)
        return await site.nothing_left()

    site.aws.behaviour.throttles.clear()
    async with site.running():
        await asyncio.gather(*(site.come(name) for name in names()))
        await calls_until(site, all_in, "accepted")
    for name in names():
        await site.admin.patch(MANAGED_CLUSTERS, name, {"metadata": {"finalizers": None}})
        await site.admin.delete(MANAGED_CLUSTERS, name)
    assert not await site.nothing_left()
    async with site.running():
        await calls_until(site, none_left, "revoked by their records")
