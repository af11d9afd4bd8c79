"""A hub of its own process for simulations: an embedded control plane, and the hub's controllers and webhooks beside it.

    python -m muster.fleet.hub DIRECTORY sqlite|memory [-v]

Writes `admin.kubeconfig` and `bootstrap.kubeconfig` into DIRECTORY, says `ready` on standard output, and serves until standard
input ends, so it never outlives the process that started it. Controllers reach the API in process, agents over TLS, and so does
the API server its webhooks. New clusters are accepted by themselves when they come with the bootstrap identity.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.fleet.bootstrap import BOOTSTRAP_USER, bootstrap_identity, write_kubeconfig
from muster.http.filelimit import raise_file_limit
from muster.machinery import logs
from muster.registration.drivers.csr.options import APPROVED_USERS, NAME
from muster.registration.hub.install import install, install_namespaces
from muster.registration.hub.manager import REPORTER, Hub
from muster.registration.hub.options import HubOptions
from muster.registration.hub.serving import Webhooks
from muster.runtime.client import AuthInfo
from muster.runtime.webhook import ServingOptions

CLUSTER = "hub"
ADMIN = "admin.kubeconfig"
BOOTSTRAP = "bootstrap.kubeconfig"
READY = "ready"


async def serve(directory: Path, store: str) -> None:
    async with AsyncExitStack() as stack:
        server = ApiServer(ServerConfig(data_dir=directory, clusters=(CLUSTER,), store=store))
        await server.start()
        stack.push_async_callback(server.stop)
        client = InProcessClient(server.client(server.clusters[CLUSTER], agent=REPORTER), CLUSTER)
        options = HubOptions(auto_approval=True, driver_options={NAME: {APPROVED_USERS: (BOOTSTRAP_USER,)}})
        await install_namespaces(client)
        webhooks = Webhooks(client, options, ServingOptions(port=0))
        await webhooks.start()
        stack.push_async_callback(webhooks.stop)
        await install(client, webhooks=webhooks.endpoint)
        hub = Hub(client, options)
        hub.add("webhooks", webhooks)
        running: asyncio.Task[None] = asyncio.create_task(hub.run(), name="hub")
        await hub.synced()
        await _write_kubeconfigs(server, client, directory)
        print(READY, flush=True)
        await _until_told(running)


async def _write_kubeconfigs(server: ApiServer, client: InProcessClient, directory: Path) -> None:
    admin = await server.admin_credentials(server.clusters[CLUSTER])
    url = server.cluster_url(CLUSTER)
    write_kubeconfig(directory / ADMIN, url, server.ca_pem, AuthInfo(cert=admin.certificate, key=admin.key))
    write_kubeconfig(directory / BOOTSTRAP, url, server.ca_pem, await bootstrap_identity(client))


async def _until_told(hub: asyncio.Task[None]) -> None:
    """Until standard input ends or the hub does; what ended it is raised."""
    told = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read), name="standard input")
    await asyncio.wait({told, hub}, return_when=asyncio.FIRST_COMPLETED)
    ended = hub.done()
    hub.cancel()
    await asyncio.wait({hub})
    if ended:
        hub.result()


if __name__ == "__main__":
    import uvloop

    logs.set_level(logs.INFO if "-v" in sys.argv else logs.ERROR)
    raise_file_limit()
    uvloop.run(serve(Path(sys.argv[1]), sys.argv[2]))
