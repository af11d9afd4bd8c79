"""The way of an account to another cluster: made once, renewed in time, replaced when it leads nowhere any more."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from muster.machinery.objects import Object
from muster.operator.accounts import AccountSecret, ensure_account_secret
from muster.runtime.client.builtin import SECRETS, SERVICE_ACCOUNTS
from muster.runtime.client.errors import NotFound
from muster.runtime.client.kubeconfig import ClientConfig, parse_kubeconfig
from tests.support.fake_clock import FakeClock
from tests.unit.operator.conftest import Cluster

WAY = ClientConfig("https://hub.example.com:6443", b"a certificate", tls_server_name="hub", proxy_url="http://proxy:3128")
WANTED = AccountSecret("way", "default", "worker", "default", {"owner": "test"})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime.now(UTC))


@pytest.fixture
async def ready(far: Cluster) -> Cluster:
    await far.admin.apply(SERVICE_ACCOUNTS, {"metadata": {"name": "worker", "namespace": "default"}}, manager="test")
    return far


async def ensure(here: Cluster, far: Cluster, clock: FakeClock, way: ClientConfig = WAY) -> Object:
    await ensure_account_secret(here.admin, far.admin, way, WANTED, "test", clock)
    return await here.admin.get(SECRETS, "way", "default")


async def test_it_leads_to_the_cluster_as_the_account(here: Cluster, ready: Cluster, clock: FakeClock) -> None:
    secret = await ensure(here, ready, clock)
    config = parse_kubeconfig(base64.b64decode(secret["data"]["kubeconfig"]))
    assert (config.server, config.ca, config.tls_server_name) == (WAY.server, WAY.ca, "hub")
    assert config.proxy_url == WAY.proxy_url
    assert str(config.identity.token_file) == "token", "beside the kubeconfig, where it is read anew"
    assert secret["metadata"]["labels"] == {"owner": "test"}


async def test_it_is_renewed_when_two_thirds_of_its_life_are_over(here: Cluster, ready: Cluster, clock: FakeClock) -> None:
    first = await ensure(here, ready, clock)
    await clock.advance(timedelta(days=4).total_seconds())
    assert await ensure(here, ready, clock) == first
    await clock.advance(timedelta(days=1).total_seconds())
    assert (await ensure(here, ready, clock))["data"]["token"] != first["data"]["token"]


@pytest.mark.parametrize("change", [{"server": "https://moved.example.com"}, {"ca": b"another certificate"}])
async def test_a_cluster_that_moved_is_followed(here: Cluster, ready: Cluster, clock: FakeClock, change: Object) -> None:
    first = await ensure(here, ready, clock)
    moved = await ensure(here, ready, clock, replace(WAY, **change))
    assert moved["data"]["kubeconfig"] != first["data"]["kubeconfig"]


async def test_a_secret_that_lost_something_is_made_whole(here: Cluster, ready: Cluster, clock: FakeClock) -> None:
    await ensure(here, ready, clock)
    await here.admin.patch(SECRETS, "way", {"data": {"token": None}}, "default")
    assert (await ensure(here, ready, clock))["data"]["token"]


async def test_without_the_account_there_is_no_way(here: Cluster, far: Cluster, clock: FakeClock) -> None:
    with pytest.raises(NotFound):
        await ensure(here, far, clock)
