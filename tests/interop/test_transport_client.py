"""Our agents' client with sdk-go's own server and broker: what upstream's hubs say and leave unsaid is understood."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.api import Condition
from muster.api.agents import CLUSTER_LABEL, AgentIdentity
from muster.api.work.v1 import ManifestWorkStatus
from muster.kube.certificates import CertificateAuthority
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, NotFound
from muster.runtime.client.builtin import EVENTS, LEASES
from muster.transport.client.client import TransportClient
from muster.transport.client.config import TransportConfig
from muster.transport.client.dialing import open_client
from muster.transport.contract.rows import EVENT_ROW, LEASE_ROW, WORKS, Row
from muster.work.agent.grpc_source import GrpcWorkSource
from muster.work.names import WORK_FINALIZER
from tests.support.peers import need

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
APPLIED = Condition(type="Applied", status="True", reason="R", message="m", last_transition_time="2026-01-01T00:00:00Z")


def lease(version: int, renewed: str = "2026-01-01T00:00:00.000000Z") -> Object:
    metadata = {"name": "managed-cluster-lease", "namespace": "c1", "uid": "lease-uid", "labels": {CLUSTER_LABEL: "c1"}}
    return {"metadata": {**metadata, "resourceVersion": str(version)}, "spec": {"renewTime": renewed}}


def work(generation: int, **metadata: Any) -> Object:
    named = {"name": "w1", "namespace": "c1", "uid": "work-uid", "generation": generation, "resourceVersion": str(generation)}
    return {"metadata": {**named, **metadata}, "spec": {"workload": {"manifests": [CONFIG_MAP] * generation}}}


async def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(0.02)


class Broker:
    """The program, driven by lines, with the agents that are its clients."""

    def __init__(self, directory: Path) -> None:
        now = datetime.now(UTC)
        authority = CertificateAuthority.create("grpc", now)
        serving = authority.issue(
            "server", now, timedelta(hours=1), usages=(ExtendedKeyUsageOID.SERVER_AUTH,), hosts=("127.0.0.1",)
        )
        agent = AgentIdentity("c1", "agent1")
        own = authority.issue(agent.common_name, now, timedelta(hours=1), organizations=sorted(agent.organizations))
        for name, content in (("tls.crt", serving.certificate), ("tls.key", serving.key), ("ca.crt", authority.pem)):
            (directory / name).write_bytes(content)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.directory = directory
        self.config = TransportConfig(f"127.0.0.1:{self.port}", ca=authority.pem, cert=own.certificate, key=own.key)
        self.published: list[Object] = []
        self.clients: list[TransportClient] = []
        self._answers: asyncio.Queue[Object] = asyncio.Queue()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        files = [
            f"--{flag}={self.directory / name}" for flag, name in (("cert", "tls.crt"), ("key", "tls.key"), ("client-ca", "ca.crt"))
        ]
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            need("transport-broker"),
            f"--port={self.port}",
            *files,
            stdin=pipe,
            stdout=pipe,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._reading = asyncio.create_task(self._read())
        await self.do(op="subscribers")

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "published" in told:
                self.published.append(told["published"])
            else:
                self._answers.put_nowait(told)

    async def do(self, **command: Any) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        answer = await asyncio.wait_for(self._answers.get(), 20)
        assert "error" not in answer, answer
        return answer["answer"]

    async def apply(self, row: Row, obj: Object) -> None:
        await self.do(op="apply", dataType=str(row.data_type), object=obj)

    async def remove(self, row: Row, uid: str) -> None:
        await self.do(op="remove", dataType=str(row.data_type), id=uid)

    async def kill(self) -> None:
        assert self._process is not None
        assert self._reading is not None
        self._process.kill()
        await self._process.wait()
        self._reading.cancel()

    def connect(self, **options: Any) -> TransportClient:
        client = open_client(self.config, "c1", **options)
        self.clients.append(client)
        return client


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    made = Broker(tmp_path)
    await made.start()
    yield made
    for client in made.clients:
        await client.close()
    await made.kill()


async def test_objects_are_followed_and_written(broker: Broker) -> None:
    await broker.apply(LEASE_ROW, lease(5))
    hub = broker.connect()
    known = await hub.get(LEASES, "managed-cluster-lease", "c1")
    assert known["metadata"]["resourceVersion"] == "5"
    renewal = asyncio.ensure_future(hub.update(LEASES, {**known, "spec": {"renewTime": "2026-01-01T00:01:00.000000Z"}}))
    await until(lambda: broker.published, "the renewal")
    assert broker.published[0]["data"]["spec"] == {"renewTime": "2026-01-01T00:01:00.000000Z"}
    await broker.apply(LEASE_ROW, lease(6, "2026-01-01T00:01:00.000000Z"))
    assert (await renewal)["metadata"]["resourceVersion"] == "6"
    failure = {"status": "Failure", "reason": "Conflict", "code": 409, "message": "modified"}
    await broker.do(op="fail", dataType=str(LEASE_ROW.data_type), status=failure)
    with pytest.raises(Conflict, match="modified"):
        await hub.update(LEASES, {**known, "spec": {}})
    event = {"metadata": {"name": "e", "namespace": "c1"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R"}
    await hub.create(EVENTS, event)
    await hub.patch(EVENTS, "e", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}, "c1")
    await until(lambda: len(broker.published) == 4, "the events")
    kind = f"{EVENT_ROW.data_type}.spec"
    assert [one["type"] for one in broker.published[2:]] == [f"{kind}.create_request", f"{kind}.update_request"]


async def test_a_work_is_held_reported_and_released(broker: Broker) -> None:
    source = GrpcWorkSource(broker.connect(source="c1-work-agent"), "c1")
    await broker.apply(WORKS, work(1))
    await source.until_synced()
    shown = source.get("w1")
    assert shown is not None
    held = await source.hold(shown)
    await source.report(held, ManifestWorkStatus(conditions=(APPLIED,)))
    await until(lambda: len(broker.published) == 2, "the reports")
    assert {one["source"] for one in broker.published} == {"c1-work-agent"}
    assert {one["extensions"]["originalsource"] for one in broker.published} == {"kube"}
    await broker.apply(WORKS, work(2, finalizers=[WORK_FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z"))
    await until(lambda: (found := source.get("w1")) and found.metadata.deletion_timestamp, "the deletion")
    shown = source.get("w1")
    assert shown is not None
    await source.release(shown)
    await until(lambda: len(broker.published) == 3, "the release")
    assert [one["type"] for one in broker.published[2]["data"]["conditions"]] == ["Applied", "Deleted"]
    await broker.remove(WORKS, "work-uid")
    await asyncio.sleep(0.1)
    assert source.names() == []


async def test_what_happened_while_it_was_away_is_found_out_by_resync(broker: Broker) -> None:
    await broker.apply(LEASE_ROW, lease(5))
    await broker.apply(WORKS, work(1))
    hub = broker.connect(source="c1-work-agent")
    source = GrpcWorkSource(hub, "c1")
    await source.until_synced()
    await hub.get(LEASES, "managed-cluster-lease", "c1")
    await broker.kill()
    await broker.start()
    await broker.apply(WORKS, work(2))
    await until(lambda: (found := source.get("w1")) and found.metadata.generation == 2, "the change")

    leases = hub.subscription(LEASE_ROW)
    await until(lambda: leases.current and not len(leases.mirror), "the lease being gone")
    with pytest.raises(NotFound):
        await hub.get(LEASES, "managed-cluster-lease", "c1")
