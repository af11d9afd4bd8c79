"""A cluster that is removed and made anew is another one: nothing proved, begun or kept of the old one counts there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from muster.apiserver.auth.access import Access
from muster.apiserver.cluster import Cluster
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer, ServerConfig
from muster.store import open_store

NAME = "brief"
MAPS = "/api/v1/namespaces/default/configmaps"


class Administrator:
    """One kept-alive connection with the administrator's certificate of a cluster."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, server: ApiServer, cluster: Cluster, directory: Path) -> Administrator:
        pair = await server.admin_credentials(cluster)
        cert, key = directory / "admin.crt", directory / "admin.key"
        cert.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        context = ssl.create_default_context(cadata=server.ca_pem.decode())
        context.load_cert_chain(cert, key)
        return cls(*await asyncio.open_connection("127.0.0.1", server.port, ssl=context))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def head(self, method: str, path: str, length: int = 0) -> bytes:
        lines = [f"{method} /clusters/{NAME}{path} HTTP/1.1", "Host: a", f"Content-Length: {length}"]
        return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()

    async def status(self) -> int:
        async with asyncio.timeout(20):
            head = await self._reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            await self._reader.readexactly(int(fields[b"Content-Length"]))
        return int(head.split()[1])

    async def get(self, path: str = MAPS) -> int:
        self.send(self.head("GET", path))
        return await self.status()

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def administering(server: ApiServer, directory: Path) -> AsyncIterator[Administrator]:
    administrator = await Administrator.connect(server, await server.add_cluster(NAME), directory)
    yield administrator
    administrator.close()


async def make_anew(server: ApiServer) -> Cluster:
    await server.remove_cluster(NAME)
    return await server.add_cluster(NAME)


async def test_an_open_connection_proves_nothing_to_the_new_cluster(server: ApiServer, tmp_path: Path) -> None:
    async with administering(server, tmp_path) as administrator:
        assert await administrator.get() == 200
        await make_anew(server)
        assert await administrator.get() == 401


async def test_a_request_under_way_does_not_write_to_the_new_cluster(server: ApiServer, tmp_path: Path) -> None:
    body = b'{"metadata":{"name":"late"}}'
    async with administering(server, tmp_path) as administrator:
        administrator.send(administrator.head("POST", MAPS, len(body)) + body[:5])
        async with asyncio.timeout(20):
            while not server.fairness.in_flight:  # noqa: ASYNC110 - the server has no event for what only tests wait for
                await asyncio.sleep(0.005)
        anew = await make_anew(server)
        administrator.send(body[5:])
        assert await administrator.status() == 404
        assert anew.read("/configmaps", "default/late") is None


async def test_an_in_process_client_ends_with_its_cluster(server: ApiServer) -> None:
    client = server.client(await server.add_cluster(NAME))
    await client.get(MAPS)
    await make_anew(server)
    with pytest.raises(ApiError) as refused:
        await client.get(MAPS)
    assert refused.value.code == 404


async def test_accounts_and_tokens_of_the_old_cluster_are_not_those_of_the_new_one(server: ApiServer) -> None:
    cluster = await server.add_cluster(NAME)
    account = "/api/v1/namespaces/kube-system/serviceaccounts/default"
    client = server.client(cluster)
    before = (await client.get(account))["metadata"]["uid"]
    token = (await client.create(f"{account}/token", {"spec": {}}))["status"]["token"]
    assert await cluster.part(Access).token_identity(token) is not None
    assert (await client.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"] == await uid_of_system(server)
    old = await uid_of_system(server)
    anew = await make_anew(server)
    assert (await server.client(anew).get(account))["metadata"]["uid"] != before
    assert await uid_of_system(server) != old
    assert await anew.part(Access).token_identity(token) is None


async def uid_of_system(server: ApiServer) -> str:
    found = await server.client(server.clusters[NAME]).get("/api/v1/namespaces/kube-system")
    return str(found["metadata"]["uid"])


async def test_another_server_on_the_same_store_lets_go_of_a_removed_cluster(tmp_path: Path) -> None:
    store = open_store("memory", None)
    first, second = (
        ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)), store) for _ in range(2)
    )
    await first.start()
    await second.start()
    try:
        async with administering(second, tmp_path) as administrator:
            old = second.clusters[NAME]
            await first.add_cluster(NAME)
            assert await administrator.get() == 200
            await make_anew(first)
            assert old.removed
            assert NAME not in second.clusters
            assert await administrator.get() == 401
    finally:
        await second.stop(0.1)
        await first.stop(0.1)
