"""The hub process of simulations: an embedded control plane with the hub's controllers and webhooks.

    python -m muster.fleet.hub DIRECTORY sqlite|memory [csr|grpc] [--addons] [-v]

Writes `admin.kubeconfig` and the agents' bootstrap file (`bootstrap.kubeconfig`, or over gRPC `bootstrap.yaml`) into DIRECTORY,
prints `ready` on standard output, and serves until standard input ends, so it never outlives the process that started it.
Controllers access the API in process, agents over TLS, and so does the API server its webhooks. New clusters with the bootstrap
identity are accepted automatically. With `--addons`, the placement and addon controllers run too.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from muster.addon.install import install as install_addons
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.fleet.bootstrap import BOOTSTRAP_USER, bootstrap_identity, write_kubeconfig
from muster.fleet.grpc_hub import GrpcFiles, open_server
from muster.http.filelimit import raise_file_limit
from muster.machinery import logs
from muster.placement.hub.install import install as install_placement
from muster.placement.hub.manager import PlacementManager
from muster.placement.hub.options import PlacementOptions
from muster.registration.drivers.csr.options import APPROVED_USERS
from muster.registration.drivers.flags import DEFAULT, GRPC
from muster.registration.hub.install import install, install_namespaces
from muster.registration.hub.manager import REPORTER, Hub
from muster.registration.hub.options import HubOptions
from muster.registration.hub.webhook_server import Webhooks
from muster.runtime.client import AuthInfo
from muster.runtime.webhook import ServingOptions

CLUSTER = "hub"
ADMIN = "admin.kubeconfig"
BOOTSTRAP = "bootstrap.kubeconfig"
BOOTSTRAPS = {DEFAULT: BOOTSTRAP, GRPC: "bootstrap.yaml"}
"""Names of the bootstrap files, by driver."""
READY = "ready"
ADDONS = "--addons"


async def serve(directory: Path, store: str, auth: str = DEFAULT, *, addons: bool = False) -> None:
    async with AsyncExitStack() as stack:
        server = ApiServer(ServerConfig(data_dir=directory, clusters=(CLUSTER,), store=store))
        await server.start()
        stack.push_async_callback(server.stop)
        client = InProcessClient(server.client(server.clusters[CLUSTER], agent=REPORTER), CLUSTER)
        files = GrpcFiles(directory) if auth == GRPC else None
        driver_options = {APPROVED_USERS: (BOOTSTRAP_USER,)} if files is None else files.driver_options(BOOTSTRAP_USER)
        options = HubOptions(drivers=(auth,), auto_approval=True, driver_options={auth: driver_options})
        await install_namespaces(client)
        webhooks = Webhooks(client, options, ServingOptions(port=0))
        await webhooks.start()
        stack.push_async_callback(webhooks.stop)
        await install(client, webhooks=webhooks.endpoint)
        hub = Hub(client, options)
        hub.add("webhooks", webhooks)
        grpc = None if files is None else await open_server(server, CLUSTER, client, files)
        if grpc is not None:
            stack.push_async_callback(grpc.stop, 1.0)
            hub.add("grpc-server", grpc)
        if addons:
            await _manage_addons(hub, client)
        running: asyncio.Task[None] = asyncio.create_task(hub.run(), name="hub")
        await hub.synced()
        await _write_kubeconfigs(server, client, directory)
        if grpc is not None and files is not None:
            await grpc.synced()
            files.write_bootstrap(directory / BOOTSTRAPS[GRPC], grpc.port, (await bootstrap_identity(client)).token)
        print(READY, flush=True)
        await _until_stopped(running)


async def _manage_addons(hub: Hub, client: InProcessClient) -> None:
    await install_placement(client, PlacementOptions())
    await install_addons(client, AddonOptions())
    hub.add("placement", PlacementManager(client, PlacementOptions()))
    hub.add("addons", AddonManager(client, AddonOptions()))


async def _write_kubeconfigs(server: ApiServer, client: InProcessClient, directory: Path) -> None:
    admin = await server.admin_credentials(server.clusters[CLUSTER])
    url = server.cluster_url(CLUSTER)
    write_kubeconfig(directory / ADMIN, url, server.ca_pem, AuthInfo(cert=admin.certificate, key=admin.key))
    write_kubeconfig(directory / BOOTSTRAP, url, server.ca_pem, await bootstrap_identity(client))


async def _until_stopped(hub: asyncio.Task[None]) -> None:
    """Wait until standard input ends or the hub does; its error is raised."""
    stopped = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read), name="standard input")
    await asyncio.wait({stopped, hub}, return_when=asyncio.FIRST_COMPLETED)
    ended = hub.done()
    hub.cancel()
    await asyncio.wait({hub})
    if ended:
        hub.result()


if __name__ == "__main__":
    import uvloop

    logs.set_level(logs.INFO if "-v" in sys.argv else logs.ERROR)
    raise_file_limit()
    drivers = [word for word in sys.argv[3:] if word in BOOTSTRAPS]
    uvloop.run(serve(Path(sys.argv[1]), sys.argv[2], *drivers, addons=ADDONS in sys.argv))
