"""An embedded API server in this process, without a port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from muster.apiserver.server import ApiServer, ServerConfig


@asynccontextmanager
async def serving(*clusters: str, **config: Any) -> AsyncIterator[ApiServer]:
    """A deleted namespace is emptied at once, unless the configuration says otherwise."""
    config.setdefault("namespace_grace_period", 0.0)
    server = ApiServer(ServerConfig(store="memory", clusters=clusters, **config))
    await server.start()
    yield server
    await server.stop(grace=0.1)
