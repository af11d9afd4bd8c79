"""Several API servers on one PostgreSQL: they serve the same, believe each other, and their controllers do not fight."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from muster.apiserver.aggregation import Aggregator
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.serviceaccounts import USER_PREFIX
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.election import LEASE_DURATION
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer, ServerConfig
from muster.machinery.authentication import UserInfo
from tests.unit.apiserver.conftest import eventually
from tests.unit.apiserver.test_aggregation import Extension, join
from tests.unit.store.conftest import new_database
from tests.unit.store.postgres_server import PostgresServer

NAMESPACES = object_path("v1", "namespaces")
CRDS = object_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
FAILOVER_SECONDS = LEASE_DURATION + 6


@pytest.fixture(scope="module")
def database_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def dsn(database_server: PostgresServer) -> str:
    return await new_database(database_server)


@asynccontextmanager
async def servers_on(*dsns: str) -> AsyncIterator[list[ApiServer]]:
    async with AsyncExitStack() as stack:
        servers = [ApiServer(ServerConfig(store=dsn)) for dsn in dsns]
        for server in servers:
            await server.start()
            stack.push_async_callback(server.stop, 0.1)
        yield servers


def client_of(server: ApiServer, user: UserInfo | None = None) -> DirectClient:
    cluster = server.clusters["default"]
    return server.client(cluster) if user is None else server.client(cluster, user)


def leader_of(servers: list[ApiServer]) -> ApiServer | None:
    leading = [server for server in servers if server.controllers.leading]
    assert len(leading) <= 1, "two servers lead"
    return leading[0] if leading else None


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def things(*, name: str = "things") -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": name, "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.example.com"},
        "spec": spec,
    }


async def established(client: DirectClient) -> None:
    async with asyncio.timeout(30):
        while True:
            found = await client.get(f"{CRDS}/things.example.com")
            if any(c["type"] == "Established" for c in (found.get("status") or {}).get("conditions") or ()):
                return
            await asyncio.sleep(0.01)


async def test_one_of_two_servers_leads_and_what_either_is_asked_is_done(dsn: str) -> None:
    async with servers_on(dsn, dsn) as servers:
        await eventually(lambda: leader_of(servers), "one leads")
        for number, server in enumerate(servers):
            await client_of(server).create(NAMESPACES, namespace(f"n{number}"))
        for server in servers:
            cluster = server.clusters["default"]
            for number in range(2):
                await eventually(lambda c=cluster, n=number: c.entry("/serviceaccounts", f"n{n}/default"), "the account")  # type: ignore[misc]


async def test_a_definition_established_on_one_server_is_served_by_the_other_at_once(dsn: str) -> None:
    async with servers_on(dsn, dsn) as (one, two):
        await client_of(one).create(CRDS, things())
        await established(client_of(one))
        made = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
        await client_of(two).create(object_path("example.com/v1", "things", "default"), made)
        assert (await client_of(one).get(object_path("example.com/v1", "things", "default", "a")))["metadata"]["uid"]
        assert {resource["name"] for resource in (await client_of(two).get("/apis/example.com/v1"))["resources"]} == {"things"}


async def test_a_right_granted_on_one_server_counts_on_the_other_at_once(dsn: str) -> None:
    maps = object_path("v1", "configmaps", "default")
    bindings = object_path("rbac.authorization.k8s.io/v1", "rolebindings", "default")
    async with servers_on(dsn, dsn) as (one, two):
        for number in range(10):
            user = UserInfo(f"user-{number}", groups=("system:authenticated",))
            with pytest.raises(ApiError) as refused:
                await client_of(two, user).get(maps)
            assert refused.value.code == 403
            await client_of(one).create(
                bindings,
                {
                    "metadata": {"name": user.name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                    "subjects": [{"kind": "User", "name": user.name, "apiGroup": "rbac.authorization.k8s.io"}],
                },
            )
            assert (await client_of(two, user).get(maps))["kind"] == "ConfigMapList"


async def test_a_token_issued_by_one_server_is_believed_by_the_other_at_once(dsn: str) -> None:
    accounts = object_path("v1", "serviceaccounts", "default")
    async with servers_on(dsn, dsn) as (one, two):
        for number in range(10):
            name = f"robot-{number}"
            await client_of(one).create(accounts, {"metadata": {"name": name}})
            issued = await client_of(one).create(f"{accounts}/{name}/token", {"spec": {}})
            found = await two.clusters["default"].part(Access).token_identity(issued["status"]["token"])
            assert found is not None
            assert found[0].name == f"{USER_PREFIX}default:{name}"
            await client_of(one).delete(f"{accounts}/{name}")
            await two.store.synced()
            with pytest.raises(ApiError):
                await two.clusters["default"].part(Access).token_identity(issued["status"]["token"])


async def test_both_servers_have_one_certificate_authority_and_the_same_bootstrap_objects(dsn: str) -> None:
    async with servers_on(dsn, dsn) as (one, two):
        assert one.ca_pem == two.ca_pem
        keys = [await server.clusters["default"].part(Access).key_store.keys(server.config.clock()) for server in (one, two)]
        assert keys[0].client_ca_pem == keys[1].client_ca_pem
        found = [await client_of(server).get(f"{NAMESPACES}/kube-system") for server in (one, two)]
        assert found[0] == found[1]


async def test_servers_started_at_the_same_time_agree_on_keys(dsn: str) -> None:
    servers = [ApiServer(ServerConfig(store=dsn)) for _ in range(3)]
    await asyncio.gather(*(server.start() for server in servers))
    try:
        assert len({server.ca_pem for server in servers}) == 1
    finally:
        for server in servers:
            await server.stop(0.1)


async def create_until(done: asyncio.Event, client: DirectClient, path: str, prefix: str) -> None:
    for number in itertools.count():
        if done.is_set():
            return
        try:
            await client.create(path, {"metadata": {"name": f"{prefix}-{number}"}})
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            await asyncio.sleep(0.001)


async def test_nothing_is_left_in_a_namespace_that_another_server_emptied_meanwhile(dsn: str) -> None:
    """Objects are created on one server while the other deletes their namespace."""
    maps = object_path("v1", "configmaps", "brief")
    async with servers_on(dsn, dsn) as (one, two):
        for _ in range(3):
            await client_of(one).create(NAMESPACES, namespace("brief"))
            await two.store.synced()
            done = asyncio.Event()
            creating = [asyncio.create_task(create_until(done, client_of(two), maps, f"m{number}")) for number in range(4)]
            await asyncio.sleep(0.05)
            await client_of(one).delete(f"{NAMESPACES}/brief")
            await eventually(lambda: one.clusters["default"].entry("/namespaces", "brief") is None, "the namespace is gone")
            await asyncio.sleep(0.1)
            done.set()
            await asyncio.gather(*creating)
            await asyncio.gather(one.store.synced(), two.store.synced())
            for server in (one, two):
                assert [entry.key for entry in server.store.list("default", "/configmaps", "brief/")] == []


async def test_a_leader_whose_database_connection_is_cut_is_followed_by_the_other(
    database_server: PostgresServer, dsn: str
) -> None:
    """Each server has a role of its own; the leader's may not log in any more."""
    name = dsn.split("?")[0].rsplit("/", 1)[1]
    admin = await asyncpg.connect(dsn)
    for role in ("first", "second"):
        await admin.execute(f"DROP ROLE IF EXISTS {role}")
        await admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    try:
        dsns = [database_server.dsn(name).replace("postgres@", f"{role}@") for role in ("first", "second")]
        async with servers_on(*dsns) as servers:
            leader = await eventually(lambda: leader_of(servers), "one leads")
            other = next(server for server in servers if server is not leader)
            role = ("first", "second")[servers.index(leader)]
            await admin.execute(f"ALTER ROLE {role} NOLOGIN")
            await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", role)
            await client_of(other).create(NAMESPACES, namespace("during"))
            await eventually(lambda: leader_of(servers) is other, "the other leads", FAILOVER_SECONDS)
            await eventually(
                lambda: other.clusters["default"].entry("/serviceaccounts", "during/default"), "the other does the work"
            )
            with pytest.raises(ApiError) as refused:
                await client_of(leader).get(f"{NAMESPACES}/during")
            assert refused.value.code == 500
            await admin.execute(f"ALTER ROLE {role} LOGIN")
            await eventually(lambda: leader.clusters["default"].entry("/namespaces", "during"), "it is back", 30)
            assert leader_of(servers) is other
    finally:
        await admin.close()


async def test_an_aggregated_api_server_is_known_to_every_server(dsn: str, tmp_path: Path) -> None:
    """Also to those that do not lead, and to one that starts later."""
    async with servers_on(dsn, dsn) as servers:
        leader = await eventually(lambda: leader_of(servers), "one leads")
        keys = leader.clusters["default"].part(Access).key_store.existing()
        assert keys is not None
        extension = Extension(tmp_path, keys.proxy_ca_pem)
        await extension.http.start("127.0.0.1", 0)
        try:
            await join(client_of(leader), extension)
            async with servers_on(dsn) as later:
                for server in (*servers, *later):
                    cluster = server.clusters["default"]

                    def is_known(cluster: Cluster = cluster) -> bool:
                        remote = cluster.part(Aggregator).named("v1.x.io")
                        return remote is not None and remote.available and remote.rows is not None

                    await eventually(is_known, "it is available and its resources are known")
                    found = await client_of(server).get("/apis/x.io/v1/widgets/a")
                    assert found["x-remote-user"] == "system:apiserver"
        finally:
            await extension.http.stop(0.1)


class ServerProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.leading = False
        self.ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, dsn: str) -> ServerProcess:
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.unit.apiserver.shared_server", dsn, stdout=pipe)
        )

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            word = line.split()[0]
            if word == b"ready":
                self.ready.set()
            else:
                self.leading = word == b"leading"

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading
        self.leading = False


async def test_a_leading_process_that_is_stopped_is_followed_and_does_not_go_on_when_it_wakes(dsn: str) -> None:
    processes = [await ServerProcess.start(dsn) for _ in range(2)]
    try:
        async with asyncio.timeout(60):
            for process in processes:
                await process.ready.wait()
        leader = await eventually(lambda: next((p for p in processes if p.leading), None), "one leads", 30)
        other = next(process for process in processes if process is not leader)
        leader.signal(signal.SIGSTOP)
        await eventually(lambda: other.leading, "the other leads", FAILOVER_SECONDS)
        leader.signal(signal.SIGCONT)
        await eventually(lambda: not leader.leading, "the first one has noticed")
        assert other.leading
    finally:
        for process in processes:
            await process.kill()


async def test_servers_at_rest_write_nothing_but_the_lease(dsn: str) -> None:
    async with servers_on(dsn, dsn) as servers:
        await client_of(servers[0]).create(CRDS, things())
        await established(client_of(servers[0]))
        await client_of(servers[1]).create(NAMESPACES, namespace("n"))
        await eventually(lambda: servers[0].clusters["default"].entry("/serviceaccounts", "n/default"), "the account")
        await eventually(lambda: all(server.controllers.backlog == 0 for server in servers), "nothing is left to do")
        written: list[str] = []
        servers[0].store.subscribe(None, None, None, lambda events: written.extend(event.resource for event in events))
        await asyncio.sleep(2.5)
        assert set(written) <= {"muster.internal/leases"}
        assert 1 <= len(written) <= 4


async def test_when_the_leading_process_is_killed_another_does_the_work_within_seconds(dsn: str) -> None:
    processes = [await ServerProcess.start(dsn) for _ in range(2)]
    try:
        async with asyncio.timeout(60):
            for process in processes:
                await process.ready.wait()
        leader = await eventually(lambda: next((p for p in processes if p.leading), None), "one leads", 30)
        other = next(process for process in processes if process is not leader)
        await leader.kill()
        async with servers_on(dsn) as (witness,):
            await client_of(witness).create(NAMESPACES, namespace("after"))
            await eventually(lambda: other.leading or witness.controllers.leading, "somebody leads", FAILOVER_SECONDS)
            await eventually(
                lambda: witness.clusters["default"].entry("/serviceaccounts", "after/default"), "the work is done", FAILOVER_SECONDS
            )
    finally:
        for process in processes:
            await process.kill()
