"""sdk-go's own gRPC server and broker as a hub's server of OCM 1.3, driven by a test that plays the hub."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.api.agents import AgentIdentity
from muster.kube.certificates import CertificateAuthority
from muster.machinery.objects import Object
from muster.transport.client.client import TransportClient
from muster.transport.client.config import TransportConfig
from muster.transport.client.dialer import open_client
from muster.transport.contract.rows import Row
from tests.support.link import Link
from tests.support.peers import need
from tests.support.processes import free_ports


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
        (self.port,) = free_ports(1)
        self.directory = directory
        self.link = Link(f"https://127.0.0.1:{self.port}")
        """By which its clients reach it."""
        self.config = TransportConfig(f"127.0.0.1:{self.link.port}", ca=authority.pem, cert=own.certificate, key=own.key)
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

    async def remove(self, row: Row, uid: str, *, silent: bool = False) -> None:
        """`silent`: nobody is told of it."""
        await self.do(op="remove", dataType=str(row.data_type), id=uid, silent=silent)

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

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        await self.kill()
        self.link.close()
