"""A whole control plane in memory for tests of controllers, as controller-runtime's envtest, started in a fraction of a second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from muster.api.crds import Definition, definitions
from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.machinery.clock import SYSTEM
from muster.runtime.client.builtin import CRDS
from muster.runtime.install import apply_all, await_definitions

__all__ = ["InProcessClient", "embedded_cluster"]


@asynccontextmanager
async def embedded_cluster(kinds: Iterable[Definition] = ()) -> AsyncIterator[InProcessClient]:
    """The administrator's client of a cluster that serves these kinds beside Kubernetes' own, and that is discarded afterwards."""
    served = tuple(kinds)
    server = ApiServer(ServerConfig(store="memory"))
    await server.start()
    try:
        (cluster,) = server.clusters.values()
        client = InProcessClient(server.client(cluster), cluster.name)
        await apply_all(client, [(CRDS, document) for document in definitions(served)], "embedded-cluster")
        await await_definitions(client, [kind.name for kind in served], SYSTEM)
        yield client
    finally:
        await server.stop(grace=0.1)
