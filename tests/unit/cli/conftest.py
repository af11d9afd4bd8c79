"""A kubeconfig that is well-formed and leads nowhere, and one that leads to a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer, ServerConfig

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Whose cluster is called `default`."""
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",), host="127.0.0.1", port=0))
    await server.start()
    yield server
    await server.stop(grace=0.1)


@pytest.fixture
async def admin_kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "admin.kubeconfig"
    await write_kubeconfig(server, path)
    return path
