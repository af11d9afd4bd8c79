"""A hub on PostgreSQL whose database goes away for a while: its servers say so, keep their agents, and lose nothing.

`MUSTER_AWAY` is for how many seconds: a few, unless told.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from muster.api.agents import CLUSTER_LABEL, PREFIX
from muster.machinery.objects import Object
from muster.runtime.client import HttpClient, KubeError
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES
from muster.transport.client.connection import is_refusal
from muster.transport.contract.errors import from_rpc
from muster.transport.contract.rows import WORKS
from muster.transport.rpc.status import RpcError
from tests.e2e.test_grpc_on_sql import CLUSTER, SqlServer, WireAgent, next_event, until_allowed
from tests.support.pki import Authority
from tests.support.registration import http_status
from tests.support.sites import beside_kube
from tests.unit.store.conftest import new_database
from tests.unit.store.postgres_server import PostgresServer
from tests.unit.transport.services.store.hubs import applied, work_report

pytestmark = beside_kube

AWAY = float(os.environ.get("MUSTER_AWAY", "3"))
GROUP = f"{PREFIX}{CLUSTER}"


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """Not that of other tests."""
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


async def until_ready(server: SqlServer, ready: bool) -> None:
    """Until readiness says so."""

    def says() -> bool:
        return (http_status(server.health_port, "/readyz") == 200) is ready

    await asyncio.to_thread(server.process.wait_until, says, 60)


async def make_work(admin: HttpClient, name: str) -> Object:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    kind = {"apiVersion": WORKS.resource.api_version, "kind": WORKS.resource.kind}
    body = {"metadata": {"name": name, "namespace": CLUSTER}, "spec": {"workload": {"manifests": [manifest]}}}
    return await admin.create(WORKS.resource, {**kind, **body}, CLUSTER)


async def let_in(admin: HttpClient) -> None:
    """What the hub's controllers do for a cluster that is accepted, so far as works go."""
    await admin.create(NAMESPACES, {"metadata": {"name": CLUSTER, "labels": {CLUSTER_LABEL: CLUSTER}}})
    rules = [
        {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks", "manifestworks/status"], "verbs": ["*"]}
    ]
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": "works-of-agents"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "works-of-agents"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}
    await admin.create(
        CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "works-of-agents"}, "roleRef": reference, "subjects": [subject]}
    )


@pytest.mark.timeout(180 + AWAY)
async def test_a_database_that_was_away_costs_nothing(database: PostgresServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    async with AsyncExitStack() as stack:
        server = SqlServer(await new_database(database), tmp_path, "one", authority)
        stack.callback(server.process.stop, kill=True)
        await server.start()
        admin = server.administrator()
        stack.push_async_callback(admin.close)
        await let_in(admin)
        credential = authority.issue(f"{GROUP}:agent", organizations=(GROUP,), file="agent")
        agent = WireAgent(server, authority, credential=credential)
        stack.push_async_callback(agent.close)
        await until_allowed(agent, WORKS)
        async with agent.subscribed(WORKS) as works:
            before = await make_work(admin, "before")
            assert (await next_event(works)).attributes["resourceid"] == before["metadata"]["uid"]

            await asyncio.to_thread(database.halt)
            gone = asyncio.get_running_loop().time()
            await until_ready(server, False)
            assert http_status(server.health_port, "/healthz") == 200, "restarting it would help nobody"
            with pytest.raises(RpcError) as refused:
                await agent.send(work_report(before, applied("in vain")))
            assert not is_refusal(from_rpc(refused.value, "", WORKS.resource)), "agents try again"
            with pytest.raises(KubeError):
                await make_work(admin, "in-vain")
            await asyncio.sleep(max(0.0, gone + AWAY - asyncio.get_running_loop().time()))

            await asyncio.to_thread(database.resume)
            await until_ready(server, True)
            after = await make_work(admin, "after")
            assert (await next_event(works)).attributes["resourceid"] == after["metadata"]["uid"], "on the same stream"
            await agent.send(work_report(before, applied("at last")))
        found = await admin.get(WORKS.resource, "before", CLUSTER)
        assert found["status"]["conditions"][0]["message"] == "at last"
        assert {one["metadata"]["name"] for one in (await admin.list(WORKS.resource, CLUSTER)).items} == {"before", "after"}
