"""A kubeconfig that changes under a client in use: the next request goes where it says, and who uses the client notices nothing."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import ClientConfig, HttpClient, ReloadingClient, Untrusted
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.in_process import serving
from tests.support.pki import Authority
from tests.unit.runtime.conftest import config_map, eventually

ADMIN = {"secret": UserInfo("admin", groups=("system:masters",))}


def write(path: Path, server: ApiServer, cluster: str = "one", ca: bytes = b"") -> None:
    authority = base64.b64encode(ca or server.ca_pem).decode()
    url = f"https://127.0.0.1:{server.port}/clusters/{cluster}"
    document = {
        "clusters": [{"name": "hub", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "agent", "user": {"token": "secret"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "agent"}}],
        "current-context": "hub",
    }
    beside = path.with_suffix(".new")
    beside.write_text(yaml.safe_dump(document))
    beside.rename(path)


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[ReloadingClient, list[ClientConfig]]]:
    made: list[ClientConfig] = []

    def connect(config: ClientConfig) -> HttpClient:
        made.append(config)
        return HttpClient(config)

    client = ReloadingClient(path, connect)
    try:
        yield client, made
    finally:
        await client.close()


@pytest.fixture
async def servers() -> AsyncIterator[ApiServer]:
    async with serving("one", "two", static_tokens=ADMIN) as running:
        yield running


async def test_requests_go_where_the_file_says_by_then(tmp_path: Path, servers: ApiServer) -> None:
    path = tmp_path / "kubeconfig"
    write(path, servers)
    async with connected(path) as (client, made):
        await client.create(CONFIG_MAPS, config_map("here"))
        write(path, servers, "two")
        await client.create(CONFIG_MAPS, config_map("there"))
        assert client.server.endswith("/two")
        assert len(made) == 2
    first = InProcessClient(servers.client(servers.clusters["one"]))
    assert "there" not in [one["metadata"]["name"] for one in (await first.list(CONFIG_MAPS, "default")).items]


async def test_a_file_that_says_the_same_or_nothing_leaves_everything_as_it_is(tmp_path: Path, servers: ApiServer) -> None:
    path = tmp_path / "kubeconfig"
    write(path, servers)
    async with connected(path) as (client, made):
        for content in (path.read_text() + "# again\n", "{", ""):
            path.write_text(content)
            await client.list(CONFIG_MAPS, "default")
        path.unlink()
        await client.list(CONFIG_MAPS, "default")
        assert len(made) == 1


async def test_after_a_new_authority_whoever_waits_goes_on_with_its_cache(tmp_path: Path, servers: ApiServer) -> None:
    """The hub's certificate is of another CA than the kubeconfig's, until that is replaced."""
    path = tmp_path / "kubeconfig"
    write(path, servers)
    async with connected(path) as (client, _):
        informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default")
        following = asyncio.create_task(informer.run())
        try:
            await asyncio.wait_for(informer.synced(), 10)
            write(path, servers, ca=Authority(tmp_path, "another").pair.cert.read_bytes())
            with pytest.raises(Untrusted) as distrust:
                await client.list(CONFIG_MAPS, "default")
            assert await client.gate.is_closed_by(distrust.value)
            waiting = asyncio.create_task(client.gate.passage())
            write(path, servers)
            await asyncio.wait_for(waiting, 10)
            admin = InProcessClient(servers.client(servers.clusters["one"]))
            await admin.create(CONFIG_MAPS, config_map("after"))
            await eventually(lambda: informer.cache.named("after", "default"))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
