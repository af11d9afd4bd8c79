"""Two gRPC servers of one hub that are killed in turn, again and again, while works come, change and go: nothing is lost, and
nothing is applied twice.

Half of the agents know both servers, the other half one address behind which both are. `MUSTER_AGENTS`, `MUSTER_KILLS` and
`MUSTER_KILL_EVERY` (seconds) make the run longer than a quick one can be: 50, 18 and 10 are three minutes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from muster.runtime.client import HttpClient, load_kubeconfig
from muster.transport.contract.rows import WORKS
from tests.e2e.transport.conftest import GrpcServer, Site
from tests.support.grpc_crowd import GrpcCrowd
from tests.support.link import Link
from tests.support.processes import complaints
from tests.support.sites import beside_kube
from tests.support.work_author import WorkAuthor

pytestmark = beside_kube

AGENTS = int(os.environ.get("MUSTER_AGENTS", "6"))
KILLS = int(os.environ.get("MUSTER_KILLS", "3"))
KILL_EVERY = float(os.environ.get("MUSTER_KILL_EVERY", "2"))
SETTLED_WITHIN = 60.0 + AGENTS


@pytest.fixture
async def hub(site: Site) -> AsyncIterator[HttpClient]:
    client = HttpClient(load_kubeconfig(site.hub.cluster.kubeconfig))
    yield client
    await client.close()


@pytest.fixture
def servers(site: Site) -> Iterator[list[GrpcServer]]:
    started = [site.server(name) for name in ("killed-one", "killed-two")]
    yield started
    for server in started:
        site.end(server)
        assert complaints(server.process.log) == []


@pytest.fixture
def bootstraps(site: Site, servers: list[GrpcServer], tmp_path: Path) -> Iterator[list[Path]]:
    """One names both servers, the other their common address."""
    balancer = Link(*(server.url for server in servers))
    ways = {"list": [f"127.0.0.1:{server.port}" for server in servers], "balancer": [f"127.0.0.1:{balancer.port}"]}
    files = [tmp_path / f"{name}.yaml" for name in ways]
    for file, addresses in zip(files, ways.values(), strict=True):
        file.write_text(yaml.safe_dump(site.bootstrap(*addresses)))
    yield files
    balancer.close()


@pytest.mark.timeout(120 + KILLS * (KILL_EVERY + 15) + 4 * SETTLED_WITHIN)
async def test_servers_killed_in_turn_cost_no_work_no_status_and_no_second_apply(
    site: Site, hub: HttpClient, servers: list[GrpcServer], bootstraps: list[Path], tmp_path: Path
) -> None:
    names = [f"mortal-{number}" for number in range(AGENTS)]
    author = WorkAuthor(hub, names, random.Random(os.environ.get("MUSTER_SEED", "kills")))
    async with GrpcCrowd(names, bootstraps, tmp_path / "agents") as crowd:
        await crowd.until_current(120)
        back: list[float] = []
        async with author.at_work():
            for victim in itertools.islice(itertools.cycle(servers), KILLS):
                next_kill = asyncio.get_running_loop().time() + KILL_EVERY
                had_agents = victim.metric("grpc_server_ce_subscribers", data_type=str(WORKS.data_type)) > 0
                # Who looks from before on does not miss a stream that is back in no time.
                losing = asyncio.create_task(crowd.until_lost(30)) if had_agents else None
                await asyncio.to_thread(victim.kill)
                starting = asyncio.create_task(asyncio.to_thread(victim.start))
                if losing is not None:
                    await losing
                    back.append(await crowd.until_current(60))
                await starting
                await asyncio.sleep(max(0.0, next_kill - asyncio.get_running_loop().time()))
        settled = asyncio.get_running_loop().time()
        await author.until_right(crowd, SETTLED_WITHIN)
        settled = asyncio.get_running_loop().time() - settled
        applied = [one for cluster in crowd.clusters.values() for one in cluster.applied.items()]
        assert [one for one in applied if one[1] > 1] == []
        assert set().union(*(wanted.values() for wanted in author.wanted.values())) <= {content for (_, content), _ in applied}
    print(
        f"\n{AGENTS} agents, {KILLS} kills, {author.changes} changes, {len(applied)} applied; all streams back after "
        f"{max(back):.1f} s at most, {sum(back) / len(back):.1f} s on average; all right {settled:.1f} s after the last change"
    )
