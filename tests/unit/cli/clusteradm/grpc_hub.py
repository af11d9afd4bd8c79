"""A hub with a gRPC server in this process, and servers that only pretend to be it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.administration.hub.authority import AUTHORITY_MAP
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority, KeyPair, fingerprint
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.registration.names import AGENT_NAMESPACE, HUB_NAMESPACE
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, SECRETS
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from tests.unit.cli.clusteradm.conftest import PLAIN, Fleet

ACCOUNT = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
SERVER = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:grpc-server-sa", groups=("system:masters",))


@dataclass
class Hub:
    """With a gRPC server in this process."""

    fleet: Fleet
    authority: CertificateAuthority
    port: int
    directory: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def digest(self) -> str:
        return fingerprint(self.authority.certificate.public_key())

    async def publish(self) -> None:
        """As the hub's operator does."""
        data = {"ca-bundle.crt": self.authority.pem.decode()}
        body = {"metadata": {"name": AUTHORITY_MAP, "namespace": HUB_NAMESPACE}, "data": data}
        await self.fleet.admin().create(CONFIG_MAPS, body, HUB_NAMESPACE)

    async def token(self, *flags: str) -> dict[str, str]:
        return dict(json.loads(await self.fleet.ok("get", "token", "-o", "json", *flags)))

    def words(self, token: str, name: str = "cluster1") -> list[str]:
        flags = ["--hub-token", token, "--cluster-name", name, "--registration-auth", "grpc", "--grpc-server", self.address]
        return ["join", *flags]

    def proved(self, token: str, name: str = "cluster1") -> list[str]:
        return [*self.words(token, name), "--grpc-ca-hash", self.digest]

    async def secret(self) -> dict[str, bytes]:
        found = await self.fleet.admin(PLAIN).get(SECRETS, "bootstrap-hub-kubeconfig", AGENT_NAMESPACE)
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    async def config(self) -> dict[str, Any]:
        return dict(yaml.safe_load((await self.secret())["config.yaml"]))

    async def untouched(self) -> bool:
        return await self.fleet.find(CRDS, "klusterlets.operator.open-cluster-management.io", "", PLAIN) is None

    def pem(self, content: bytes) -> str:
        path = self.directory / "authority.crt"
        path.write_bytes(content)
        return str(path)


@pytest.fixture
async def hub(fleet: Fleet, tmp_path: Path) -> AsyncIterator[Hub]:
    """One authority for server and agents, as upstream's operator makes it: then the server presents it."""
    authority = CertificateAuthority.create("signer", SYSTEM.now())
    pair = authority.issue("server", SYSTEM.now(), timedelta(hours=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",))
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    cert, key, client_ca = (str(tmp_path / name) for name in files)
    config = GrpcServerConfig(cert, key, client_ca, server_bind_port=0)
    server = GrpcServer(fleet.user(SERVER), GrpcServerOptions(config, "127.0.0.1"))
    await server.start()
    running = asyncio.create_task(server.run())
    await server.synced()
    await fleet.ok("init", "--force", "--registration-drivers=csr,grpc", f"--grpc-server=127.0.0.1:{server.port}")
    yield Hub(fleet, authority, server.port, tmp_path)
    await server.stop(grace=0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@contextmanager
def pretender(hub: Hub, pair: KeyPair) -> Iterator[tuple[str, list[bytes]]]:
    """A TLS server with another certificate, and the hub's authority behind it."""
    import socket
    import ssl
    import threading

    from muster.http.tls import HTTP_2, server_context

    context = server_context(pair.certificate + hub.authority.pem, pair.key, alpn=HTTP_2)
    heard: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as secured:
                    secured.settimeout(5)
                    secured.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
                    while data := secured.recv(65536):
                        heard.append(data)
            except (OSError, ssl.SSLError):
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}", heard
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)
