"""A driver of another distribution, really built and installed: found by name in a new process, and driving both sides there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins import install

SCRIPT = """
import asyncio, json, random
from muster.api.cluster.v1 import ManagedCluster
from muster.apiserver.server import ApiServer, ServerConfig
from muster.registration.drivers import available, find
from muster.registration.drivers.interfaces import DriverError, HubContext, SpokeContext
from muster.registration.names import AgentIdentity
from muster.machinery.clock import SYSTEM
from muster.fleet.in_process import InProcessClient
from muster.runtime.controller.events import EventRecorder
from muster.runtime.cache.informer import Informers
from muster.machinery.metrics import Metrics
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES

async def main():
    told = {"available": available(), "by alias": find("token").name}
    driver = find("static-token")
    told["distribution"] = type(driver).__module__
    try:
        driver.spoke(SpokeContext(AgentIdentity("c1", "a"), SYSTEM, random.random, Metrics()))
    except DriverError as error:
        told["refused"] = str(error)

    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await server.start()
    client = InProcessClient(server.client(server.clusters["hub"]))
    await client.create(NAMESPACES, {"metadata": {"name": "c1"}})

    spoke = driver.spoke(SpokeContext(AgentIdentity("c1", "a"), SYSTEM, random.random, Metrics(), {"token": ("s3cret",)}))
    stored = {}
    before = spoke.problem(stored)
    stored.update((await spoke.advance(client, stored, {})).credential)
    told["spoke"] = [before, spoke.problem(stored), spoke.kubeconfig_user()]
    marked = spoke.decorate({"metadata": {"name": "c1"}})
    digest = marked["metadata"]["annotations"]["agent.open-cluster-management.io/token-digest"]

    options = {"accepted-digest": (digest,)}
    events = EventRecorder(client, "hub", "test")
    parts = (client, Informers(client), events, Metrics(), SYSTEM, random.random)
    context = HubContext(*parts, reconsider=print, auto_approval=True, options=options)
    hub, csr = driver.hub(context), find("csr").hub(HubContext(*parts, reconsider=print))
    cluster, foreign = ManagedCluster.decode(marked), ManagedCluster.decode({"metadata": {"name": "c2"}})
    told["owners"] = [[one.owns(cluster), one.owns(foreign)] for one in (hub, csr)]
    told["votes"] = [hub.vote(cluster).value, hub.vote(foreign).value]
    grants = [(await hub.grant(cluster)).ok, (await hub.grant(cluster)).ok]
    granted = [item["metadata"]["name"] for item in (await client.list(CONFIG_MAPS, "c1")).items]
    revokes = [(await hub.revoke(cluster)).ok, (await hub.revoke(cluster)).ok]
    left = [item["metadata"]["name"] for item in (await client.list(CONFIG_MAPS, "c1")).items]
    told["permit"] = [grants, "static-token-permit" in granted, revokes, "static-token-permit" in left]
    await server.stop(grace=0.1)
    print(json.dumps(told))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that has the plug-in on its path."""
    site = tmp_path_factory.mktemp("plugin") / "site"
    install("static_token", site)
    return json.loads(run(SCRIPT, site))


def run(script: str, site: Path | None = None) -> str:
    path = {} if site is None else {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, **path}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_there_only_where_it_is_installed(told: dict[str, Any]) -> None:
    assert told["available"] == ["awsirsa", "csr", "grpc", "static-token"]
    script = "from muster.registration.drivers import available; print(*available())"
    assert run(script).split() == ["awsirsa", "csr", "grpc"]


def test_it_is_found_by_name_and_alias_and_refuses_bad_options(told: dict[str, Any]) -> None:
    assert told["distribution"] == "muster_static_token"
    assert told["by alias"] == "static-token"
    assert told["refused"] == "registration driver static-token: --token: an agent needs one"


def test_its_spoke_side_gets_a_credential(told: dict[str, Any]) -> None:
    assert told["spoke"] == ["the token is not stored", "", {"tokenFile": "token"}]


def test_its_hub_side_owns_votes_grants_and_revokes_and_ours_keeps_out(told: dict[str, Any]) -> None:
    assert told["owners"] == [[True, False], [False, True]]
    assert told["votes"] == ["allow", "abstain"]
    assert told["permit"] == [[True, True], True, [True, True], False]
