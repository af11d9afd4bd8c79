"""A gRPC server in a process of its own, for clients that mean it no good and for judges of HTTP/2."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import peers
from tests.support.http2_client import Bystander, Credentials, Target
from tests.support.pki import Authority
from tests.support.processes import Server


@dataclass
class Site:
    server: Server
    port: int
    known: Credentials
    stranger: Credentials

    @property
    def resident(self) -> int:
        pages = int(Path(f"/proc/{self.server.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def bystander(self) -> Bystander:
        return Bystander(Target("127.0.0.1", self.port, self.known.tls()))


@contextmanager
def attacked_server(directory: Path) -> Iterator[Site]:
    servers, clients = Authority(directory, "server-ca"), Authority(directory, "ca")
    serving = servers.issue("server", hosts=("127.0.0.1",))
    shutil.copy(serving.cert, directory / "tls.crt")
    shutil.copy(serving.key, directory / "tls.key")
    known = clients.issue("known")
    command: list[str | Path] = [sys.executable, "-m", "tests.support.rpc_server", directory]
    server = Server("rpc server", command, directory / "log", {"PYTHONPATH": str(peers.ROOT)})
    server.start()
    server.wait_until((directory / "port").exists)
    trusted = servers.pair.cert
    try:
        yield Site(server, int((directory / "port").read_text()), Credentials(trusted, known.cert, known.key), Credentials(trusted))
    finally:
        server.stop(kill=True)
