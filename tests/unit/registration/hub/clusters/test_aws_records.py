"""Records by cluster: as many are read as a cluster has, however many clusters there are, and none is missed, whoever wrote it."""

import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import Object
from muster.registration.drivers.awsirsa import records as records_module
from muster.registration.drivers.awsirsa.records import Mapping, Phase, Record, Records, beginning, document
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import AlreadyExists, Conflict, NotFound
from tests.support.operating import running
from tests.unit.registration.hub.clusters.aws_play import AwsPlay, open_aws_play, pair
from tests.unit.registration.hub.conftest import DeafClient, Play


def record(number: int, cluster: str = "", phase: Phase = Phase.GRANTING) -> Record:
    made = beginning(pair(number), cluster or f"c{number}", f"uid-{number}", Mapping.AWS_AUTH)
    return msgspec.structs.replace(made, phase=phase)


async def put(play: Play, one: Record) -> None:
    await play.admin.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **document(one, HUB_NAMESPACE)})


@pytest.fixture
async def site(play: Play) -> AwsPlay:
    return await open_aws_play(play)


@pytest.mark.parametrize("count", [10, 200])
async def test_how_many_records_are_read_does_not_grow_with_the_clusters(
    site: AwsPlay, monkeypatch: pytest.MonkeyPatch, count: int
):
    for number in range(1, count):
        await put(site.play, record(number, phase=Phase.LEFT))
    await site.play.create_cluster("plain")
    really, read = records_module.recorded, 0

    def counted(config_map: Object) -> Record | None:
        nonlocal read
        read += 1
        return really(config_map)

    async def known(name: str) -> ManagedCluster:
        return ManagedCluster.decode(await site.play.admin.get(MANAGED_CLUSTERS, name))

    async with site.running() as driver:
        await site.cluster()
        await site.accepted()
        await site.play.at_rest()
        plain, own = await known("plain"), await known("c0")
        monkeypatch.setattr(records_module, "recorded", counted)
        assert not driver.owns(plain)
        assert (await driver.revoke(plain)).ok
        assert read == 0, "a cluster of another driver has none"
        assert (await driver.grant(own)).ok
        assert 0 < read <= 5


@asynccontextmanager
async def following(play: Play) -> AsyncIterator[Records]:
    context = play.world().context
    found = Records(context, HUB_NAMESPACE)
    async with running(context.informers.run()):
        await found.informer.synced()
        yield found


async def tried(write: Awaitable[object]) -> None:
    """Others may have been faster, or there may be nothing to write to."""
    with suppress(AlreadyExists, Conflict, NotFound):
        await write


@pytest.mark.parametrize("seed", range(2))
async def test_whoever_writes_no_record_is_missed(site: AwsPlay, seed: int):
    """This process and others write, and the watch is behind now and then: the index says what a look at all of them would."""
    play, chance = site.play, random.Random(seed)
    play.hub_client = client = play.as_hub(DeafClient)
    is_deaf = False
    async with following(play) as records:
        for step in range(150):
            one = record(chance.randrange(4), f"c{chance.randrange(3)}")
            seen = records.get(one.role)
            match chance.randrange(7):
                case 0:
                    is_deaf = not is_deaf
                    client.deaf_to("configmaps" if is_deaf else "")
                case 1:
                    await play.at_rest()
                case 2:
                    await tried(put(play, one))
                case 3:
                    await tried(play.admin.delete(CONFIG_MAPS, one.role, HUB_NAMESPACE))
                case 4:
                    await tried(records.create(one))
                case 5 if seen is not None:
                    await tried(records.update(msgspec.structs.replace(seen, phase=Phase.GRANTED)))
                case 6 if seen is not None:
                    await tried(records.delete(seen))
            for cluster in ("c0", "c1", "c2"):
                expected = {found.role for found in records.all() if found.cluster == cluster}
                assert {found.role for found in records.of(cluster)} == expected, f"step {step}"
