"""kube-apiserver's aggregator speaks HTTP/2 with a gateway that offers it (`--http2`): requests and watches of everybody share a
connection, upgrades have their own. The embedded hub speaks HTTP/1.1 with it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GatewaySite
from tests.support.administrator import wait_for
from tests.support.client import Client
from tests.support.sites import KUBE

pytestmark = pytest.mark.skipif(not KUBE, reason="the embedded hub's aggregator speaks HTTP/1.1")

WATCHES = 48
CALLERS = 32
ESTABLISHED = "01"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def _connections(port: int) -> set[str]:
    """Their ends on the callers' side."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, remote, state = line.split()[:4]
            if state == ESTABLISHED and int(remote.rpartition(":")[2], 16) == port:
                found.add(local)
    return found


@pytest.fixture(scope="module", autouse=True)
def offering(site: GatewaySite) -> Iterator[None]:
    def restarted(*flags: str) -> None:
        site.gateway.stop()
        site.gateway.start(*flags)
        wait_for(lambda: site.admin.get(GATEWAYS).status == 200, "the gateway's API through the hub", timeout=90)

    restarted("--http2")
    yield
    restarted()


@pytest.fixture
def named(site: GatewaySite) -> Iterator[str]:
    name = site.name("shared-")
    yield name
    site.spokes["foo"].client().delete(f"{CONFIGMAPS}/{name}")


def test_watches_and_requests_of_many_share_a_connection(site: GatewaySite, named: str) -> None:
    before = _connections(site.gateway.port)
    with ExitStack() as stack:
        selector = {"fieldSelector": f"metadata.name={named}"}
        watches = [stack.enter_context(site.through("foo").watch(CONFIGMAPS, selector, timeout=30)) for _ in range(WATCHES)]

        def ask(_: int) -> int:
            client = site.through("foo")
            return sum(client.get("/api/v1/namespaces/default").status == 200 for _ in range(10))

        with ThreadPoolExecutor(CALLERS) as callers:
            assert sum(callers.map(ask, range(CALLERS))) == CALLERS * 10
        kind = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": named}}
        site.spokes["foo"].client().post(CONFIGMAPS, kind).expect(201)
        assert {watch.take(1)[0]["type"] for watch in watches} == {"ADDED"}
        # One for requests, and one of what looks whether the API is available.
        assert len(_connections(site.gateway.port) - before) <= 2
    # A watch whose client has gone is not held open on the cluster either.
    wait_for(lambda: site.through("foo").get("/readyz").status == 200, "requests after the watches have gone")


def test_a_large_list_and_a_large_object_pass(site: GatewaySite, named: str) -> None:
    through: Client = site.through("foo")
    kind = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": named}, "data": {"large": "x" * 900_000}}
    through.post(CONFIGMAPS, kind).expect(201)
    assert len(through.get(f"{CONFIGMAPS}/{named}").expect(200)["data"]["large"]) == 900_000
