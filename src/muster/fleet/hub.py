"""A hub of its own process for simulations: an embedded control plane, and the hub's controllers beside it.

    python -m muster.fleet.hub DIRECTORY sqlite|memory [-v]

Writes `admin.kubeconfig` and `bootstrap.kubeconfig` into DIRECTORY, says `ready` on standard output, and serves until standard
input ends, so it never outlives the process that started it. Controllers reach the API in process, agents over TLS. New clusters
are accepted by themselves when they come with the bootstrap identity.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from muster import logs
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.bootstrap import BOOTSTRAP_USER, bootstrap_user, certificate_user, write_kubeconfig
from muster.registration.hub.install import install
from muster.registration.hub.manager import REPORTER, Hub
from muster.registration.hub.options import HubOptions
from muster.runtime.direct import InProcessClient

CLUSTER = "hub"
ADMIN = "admin.kubeconfig"
BOOTSTRAP = "bootstrap.kubeconfig"
READY = "ready"


async def serve(directory: Path, store: str) -> None:
    server = ApiServer(ServerConfig(data_dir=directory, clusters=(CLUSTER,), store=store))
    await server.start()
    try:
        cluster = server.clusters[CLUSTER]
        client = InProcessClient(server.client(cluster, agent=REPORTER), CLUSTER)
        await install(client)
        options = HubOptions(auto_approval=True, driver_options={"csr": {"auto-approved-csr-users": (BOOTSTRAP_USER,)}})
        hub = Hub(client, options)
        running = asyncio.create_task(hub.run(), name="hub")
        admin = await server.admin_credentials(cluster)
        url = server.cluster_url(CLUSTER)
        write_kubeconfig(directory / ADMIN, url, server.ca_pem, certificate_user(admin.certificate, admin.key))
        write_kubeconfig(directory / BOOTSTRAP, url, server.ca_pem, await bootstrap_user(client))
        await hub.synced()
        print(READY, flush=True)
        await _until_told(running)
    finally:
        await server.stop()


async def _until_told(running: asyncio.Task[None]) -> None:
    """Until standard input ends or the hub fails."""
    told = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read), name="standard input")
    await asyncio.wait({told, running}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    running.cancel()
    await asyncio.wait({running})


if __name__ == "__main__":
    import uvloop

    logs.set_level(logs.INFO if "-v" in sys.argv else logs.WARNING)
    uvloop.run(serve(Path(sys.argv[1]), sys.argv[2]))
