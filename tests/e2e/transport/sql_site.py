"""A site whose hub has no Kubernetes: its gRPC servers keep everything in one database and are its API servers.

On SQLite there is one server, and a test that asks for another gets that one; on PostgreSQL each is a process of its own with an
API of its own, and the hub's controllers and the administrator use the first one's.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.transport.conftest import GrpcServer, Site, hub_flags
from tests.support.client import Client
from tests.support.pki import Authority, Pair
from tests.support.planes import Cluster, EmbeddedPlane
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER, Hub, Spoke
from tests.unit.store.conftest import new_database
from tests.unit.store.postgres_server import PostgresServer


@dataclass(frozen=True)
class ServedCluster(Cluster):
    """As its administrator reaches it with the certificate that the server has written down."""

    certificate: tuple[Path, Path]
    clients: list[Client] = field(default_factory=list, compare=False)

    def client(self, user: str = "admin", *, timeout: float = 30) -> Client:
        assert user == "admin", "a database knows no other static users"
        made = Client(self.url, ca=self.ca, certificate=self.certificate, timeout=timeout)
        self.clients.append(made)
        return made


def read_cluster(kubeconfig: Path) -> ServedCluster:
    document = yaml.safe_load(kubeconfig.read_text())
    (place,), (user,) = document["clusters"], document["users"]
    ca, cert, key = (kubeconfig.with_suffix(f".{name}") for name in ("ca", "crt", "key"))
    ca.write_bytes(base64.b64decode(place["cluster"]["certificate-authority-data"]))
    cert.write_bytes(base64.b64decode(user["user"]["client-certificate-data"]))
    key.write_bytes(base64.b64decode(user["user"]["client-key-data"]))
    return ServedCluster("hub", place["cluster"]["server"], ca, kubeconfig, (cert, key))


class SqlGrpcServer(GrpcServer):
    """`muster grpc-server --persistence sql` as a process."""

    def __init__(self, database: str, directory: Path, name: str, serving: Pair, signer: Authority) -> None:
        self.port, self.health_port, api_port = free_ports(3)
        self.kubeconfig = directory / f"{name}.kubeconfig"
        config = directory / f"{name}.yaml"
        files = {
            "tls_cert_file": str(serving.cert),
            "tls_key_file": str(serving.key),
            "client_ca_file": str(signer.pair.cert),
            "server_bind_port": str(self.port),
        }
        config.write_text(yaml.safe_dump(files))
        command: list[str | Path] = [MUSTER, "grpc-server", "--persistence=sql", f"--server-config={config}"]
        command += [f"--write-kubeconfig={self.kubeconfig}", f"--api-port={api_port}"]
        command += ["--bind-host=127.0.0.1", f"--health-port={self.health_port}"]
        self.process = Server(f"muster grpc-server {name}", command, directory / f"{name}.log", {"MUSTER_DATABASE": database})
        self.cluster: ServedCluster | None = None

    def start(self) -> None:
        super().start()
        if self.cluster is None:
            self.cluster = read_cluster(self.kubeconfig)

    def kill(self) -> None:
        super().kill()
        self._forget_connections()

    def stop(self) -> None:
        super().stop()
        self._forget_connections()

    def _forget_connections(self) -> None:
        """Those of the administrator's clients ended with the server."""
        for client in self.cluster.clients if self.cluster else ():
            client.close()


@dataclass
class SqlSite(Site):
    database: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.has_several_servers = self.database.startswith("postgresql")

    def install(self) -> None:
        """The server has installed what it needs itself."""
        self.hub.install()

    def server(self, name: str, *more: Any, **options: Any) -> GrpcServer:
        assert not more, "of a server on a cluster"
        assert not options, "of a server on a cluster"
        if not self.has_several_servers:
            return self.servers[0]
        server = SqlGrpcServer(self.database, self.directory, name, self.serving, self.signer)
        server.start()
        self.hub.servers.append(server.process)
        self.servers.append(server)
        return server


def sql_site(directory: Path, kind: str) -> Iterator[Site]:
    """With a managed cluster that is no other site's."""
    with ExitStack() as stack:
        spoke = EmbeddedPlane(directory / "spoke", ())
        spoke.start()
        stack.callback(spoke.stop, kill=True)
        database = f"sqlite:///{directory}/hub.db"
        if kind == "postgres":
            postgres = PostgresServer()
            postgres.start()
            stack.callback(postgres.stop)
            database = asyncio.run(new_database(postgres))
        yield from _site(spoke.cluster, directory, database)


def _site(spoke: Cluster, directory: Path, database: str) -> Iterator[Site]:
    signer = Authority(directory, "signer")
    serving = signer.issue("grpc-server", hosts=("127.0.0.1",), file="first-serving")
    first = SqlGrpcServer(database, directory, "first", serving, signer)
    first.start()
    assert first.cluster is not None
    hub = Hub(first.cluster, directory / "hub", hub_flags(signer))
    site = SqlSite(hub, Spoke(spoke, directory / "agents"), directory, signer, database=database)
    site.servers.append(first)
    hub.servers.append(first.process)
    site.install()
    hub.start()
    yield site
    hub.stop()
    for server in reversed(site.servers):
        server.stop()
