"""The same client without a network: requests go straight into the embedded server's pipeline in this process.

Identity, admission and storage are those of a request from outside; only sockets and TLS are left out. A watcher that does not
keep up is cut off by the server's bounded queue, as it would be over a socket.

`embedded_cluster` is such a server for tests of controllers, as controller-runtime's envtest: a whole control plane in memory that
is there in a fraction of a second.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from muster.api.crds import Definition, definitions
from muster.apiserver.client import DirectClient
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer, ServerConfig
from muster.http import Response
from muster.machinery.clock import SYSTEM
from muster.runtime.client import JSON, Query, RestClient, Unreachable, status_error
from muster.runtime.client.builtin import CRDS
from muster.runtime.install import apply_all, await_definitions


class InProcessClient(RestClient):
    def __init__(self, client: DirectClient, name: str = "in-process") -> None:
        self._client = client
        self._name = name

    @property
    def server(self) -> str:
        return self._name

    def as_user(self, name: str) -> InProcessClient:
        other = copy.copy(self)
        other._client = self._client.as_user(name)
        return other

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        answer = await self._client.send(method, path, query, body, media)
        if not isinstance(answer, Response):
            raise Unreachable(self._name, f"{method} {path} is answered by a stream")
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        if answer.status >= 400:
            raise status_error(answer.status, content)
        return content

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        # A server in the same process is never away: the first event is early enough to learn that it answers.
        lines = self._client.lines(path, query)
        try:
            async for line in lines:
                yield line
        except ApiError as error:
            raise status_error(error.code, error.status()) from error
        finally:
            await lines.aclose()

    async def close(self) -> None:
        return None


@asynccontextmanager
async def embedded_cluster(kinds: Iterable[Definition] = ()) -> AsyncIterator[InProcessClient]:
    """The administrator's client of a cluster that serves these kinds beside Kubernetes' own, and is gone afterwards."""
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
