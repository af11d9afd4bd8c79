"""The gRPC server of a simulation's hub, in the hub's process, and the bootstrap configuration of new agents.

One CA, generated at every start, signs the certificates of the server and of agents. The server has the service account and the
permissions of its installation, and no others.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path
from typing import Final

from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.kube import yaml
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.privatefiles import replace_private
from muster.registration.drivers.grpc.options import APPROVED_USERS, CA_FILE, DEFAULT_ACCOUNT, KEY_FILE
from muster.registration.drivers.profile import DriverOptions
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import KubeClient
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.install import install
from muster.transport.server.server import GrpcServer, GrpcServerOptions

HOST: Final = "127.0.0.1"
LIFETIME: Final = timedelta(days=30)
_ACCOUNT: Final = UserInfo(
    DEFAULT_ACCOUNT, groups=("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", AUTHENTICATED)
)


class GrpcFiles:
    """The files of server and controllers, in a directory that only their user can read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        now = SYSTEM.now()
        authority = CertificateAuthority.create("muster-sim", now)
        pair, serving = authority.pair(), authority.issue("hub", now, LIFETIME, usages=(SERVER_AUTH,), hosts=(HOST,))
        self.authority = pair.certificate
        self.ca, self.key = self._write("signer.crt", pair.certificate), self._write("signer.key", pair.key)
        cert, key = self._write("grpc.crt", serving.certificate), self._write("grpc.key", serving.key)
        self.config = GrpcServerConfig(str(cert), str(key), str(self.ca), server_bind_port=0)

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        replace_private(path, content)
        return path

    def driver_options(self, user: str) -> DriverOptions:
        """Options of the hub's side; clusters that this user introduces are accepted automatically."""
        return {APPROVED_USERS: (user,), CA_FILE: (str(self.ca),), KEY_FILE: (str(self.key),)}

    def write_bootstrap(self, path: Path, port: int, token: str) -> None:
        data = base64.b64encode(self.authority).decode()
        replace_private(path, yaml.dump({"url": f"{HOST}:{port}", "token": token, "caData": data}).encode())


async def open_server(server: ApiServer, cluster: str, admin: KubeClient, files: GrpcFiles) -> GrpcServer:
    """The server with its socket open; the caller runs it."""
    await install(admin, HUB_NAMESPACE)
    client = InProcessClient(server.client(server.clusters[cluster], _ACCOUNT, "grpc-server"), cluster)
    made = GrpcServer(client, GrpcServerOptions(files.config, HOST))
    await made.start()
    return made
