"""The hub of a local fleet that is stored in a database: its gRPC server, which includes its API server, and its controllers.

An administrator runs this as three processes: `muster grpc-server --persistence sql`, `muster hub` and `muster work-hub`. Here they
are components of the fleet's process. There is no ClusterManager, operator or node, because there is no Kubernetes that could run
pods.

The certificates are in the hub's Secrets and in its ConfigMap, under the names that the operator of a hub on Kubernetes uses; so a
hub that is opened again, from any directory, keeps its identity for its agents. Servers and controllers read them from files, which
are written again whenever a Secret changes. A component that ends is restarted after a pause, as a pod would be. The holder
identity of leases is the fleet's directory, so that a fleet that was killed continues at once, and two on one database use leader
election.
"""

from __future__ import annotations

import base64
import os
import random as chance
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from muster.administration.hub.authority import AUTHORITY_KEY, AUTHORITY_MAP
from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.confinement import host_name
from muster.machinery.logs import get_logger
from muster.machinery.privatefiles import make_private_directory, replace_private
from muster.machinery.tasks import run_all
from muster.operator.cluster_manager.grpc_certificates import CERTIFICATE, KEY, SERVING_SECRET, ensure_authority, ensure_serving
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.grpc.options import CA_FILE, KEY_FILE
from muster.registration.hub import install as registration
from muster.registration.hub.manager import REPORTER as REGISTRATION
from muster.registration.hub.manager import Hub
from muster.registration.hub.options import HubOptions
from muster.registration.hub.webhook_server import Webhooks as RegistrationWebhooks
from muster.registration.names import HUB_LOCK, HUB_NAMESPACE
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS, SECRETS
from muster.runtime.controller import LeaderElection, Manager
from muster.runtime.install import apply_all, named
from muster.runtime.webhook import ServingOptions, WebhookServing
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from muster.transport.services.store.hub import CLUSTER, SqlHub, SqlHubOptions, sql_hub
from muster.work.hub import install as work
from muster.work.hub.manager import REPORTER as WORK
from muster.work.hub.manager import WorkHub
from muster.work.hub.options import WorkHubOptions
from muster.work.hub.webhook_server import Webhooks as WorkWebhooks

log = get_logger("muster.fleet.local")

HOST: Final = "127.0.0.1"
MANAGER: Final = "muster-up"
DRAIN_GRACE: Final = 1.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
LONG_ENOUGH: Final = 60.0
"""After so many seconds of running, a component's next failure has the shortest backoff again."""
LEASES: Final = {HUB_LOCK: "its controller", work.LOCK: "its controller of works"}
"""The leases that the components renew, with the names of the components."""


class DatabaseHub:
    """Call `prepare`, then `run` until cancelled; `server` serves before and until after that."""

    def __init__(self, hub: SqlHub, files: Path, grpc_port: int, identity: str, clock: Clock, random: Random) -> None:
        self._hub = hub
        self._grpc_port = grpc_port
        self._identity = identity
        self._clock = clock
        self._random = random
        self._certificates = Certificates(hub.client, files, clock)
        self._renewal = 0.0

    @property
    def server(self) -> ApiServer:
        return self._hub.server

    async def prepare(self) -> None:
        """Create what its components need when they start. Raises KubeError."""
        self._renewal = await self._certificates.ensure()

    async def run(self) -> None:
        parts = {"gRPC server": self._serve_agents, "hub": self._serve_registration, "work hub": self._serve_works}
        await run_all(
            {
                "certificates": partial(self._certificates.keep, self._renewal),
                **{name: partial(self._restart, name, serve) for name, serve in parts.items()},
            }
        )

    async def _restart(self, name: str, serve: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, random=self._random)
        while True:
            began = self._clock.monotonic()
            try:
                await serve()
            except Exception as error:  # a component's error restarts it, and the others go on
                log.error("a part of the hub ended", part=name, error=f"{type(error).__name__}: {error}")
            if self._clock.monotonic() - began > LONG_ENOUGH:
                backoff.reset()
            await sleep(self._clock, backoff.next())

    async def _serve_agents(self) -> None:
        options = GrpcServerOptions(self._certificates.server_config(self._grpc_port), HOST)
        server = GrpcServer(self._hub.client, options, services=self._hub.services, clock=self._clock, random=self._random)
        await server.start()
        try:
            await server.run()
        finally:
            await server.stop(DRAIN_GRACE)

    async def _serve_registration(self) -> None:
        options = HubOptions(drivers=(GRPC,), driver_options={GRPC: self._certificates.driver_options()})
        client = self._client(REGISTRATION)
        webhooks = RegistrationWebhooks(client, options, ServingOptions(port=0), clock=self._clock)
        hub = Hub(client, options, clock=self._clock, random=self._random)
        await self._lead(HUB_LOCK, hub, webhooks, lambda: registration.install(client, webhooks=webhooks.endpoint))

    async def _serve_works(self) -> None:
        options, client = WorkHubOptions(), self._client(WORK)
        webhooks = WorkWebhooks(client, options, ServingOptions(port=0), clock=self._clock)
        hub = WorkHub(client, options, clock=self._clock, random=self._random)
        await self._lead(work.LOCK, hub, webhooks, lambda: work.install(client, options, webhooks.endpoint))

    async def _lead(self, lease: str, manager: Manager, webhooks: WebhookServing, install: Callable[[], Awaitable[None]]) -> None:
        await webhooks.start()
        try:
            await install()
            manager.add("webhooks", webhooks, needs_leader_election=False)
            await manager.run(LeaderElection(self._hub.client, lease, HUB_NAMESPACE, self._identity))
        finally:
            await webhooks.stop()

    def _client(self, agent: str) -> KubeClient:
        return InProcessClient(self.server.client(self.server.clusters[CLUSTER], agent=agent), CLUSTER)


class Certificates:
    """The CAs and certificates of the gRPC server and the agents' signer: in the hub's Secrets, and in files for the components."""

    def __init__(self, client: KubeClient, files: Path, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._trusted = files / "ca.crt"
        self._serving = {CERTIFICATE: files / "serving.crt", KEY: files / "serving.key"}
        self._signer = {CERTIFICATE: files / "signer.crt", KEY: files / "signer.key"}

    def server_config(self, port: int) -> GrpcServerConfig:
        return GrpcServerConfig(str(self._serving[CERTIFICATE]), str(self._serving[KEY]), str(self._trusted), server_bind_port=port)

    def driver_options(self) -> dict[str, tuple[str, ...]]:
        return {CA_FILE: (str(self._signer[CERTIFICATE]),), KEY_FILE: (str(self._signer[KEY]),)}

    async def ensure(self) -> float:
        """Create or renew them; returns the seconds until the next renewal. Raises KubeError."""
        signer = await ensure_authority(self._client, HUB_NAMESPACE, self._clock, self._trust)
        renewal = await ensure_serving(self._client, HUB_NAMESPACE, (HOST,), signer, self._clock)
        secret = await self._client.get(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
        for key, path in self._serving.items():
            _write(path, base64.b64decode(secret["data"][key]))
        contents = signer.contents()
        for key, path in self._signer.items():
            _write(path, contents[key])
        return (min(renewal, signer.renewal) - self._clock.now()).total_seconds()

    async def keep(self, seconds: float) -> None:
        """Renew them in time, first after so many seconds."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            await sleep(self._clock, max(seconds, FIRST_PAUSE))
            try:
                seconds = await self.ensure()
                backoff.reset()
            except Exception as error:  # retried: a third of their life is left
                log.error("certificates could not be renewed", error=f"{type(error).__name__}: {error}")
                seconds = backoff.next()

    async def _trust(self, bundle: bytes) -> None:
        document: dict[str, object] = {"metadata": named(AUTHORITY_MAP, HUB_NAMESPACE), "data": {AUTHORITY_KEY: bundle.decode()}}
        await apply_all(self._client, [(CONFIG_MAPS, document)], MANAGER)
        _write(self._trusted, bundle)


def _write(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        replace_private(path, content)


def _identity(directory: Path) -> str:
    return f"{host_name()}_{os.path.realpath(directory)}"


@asynccontextmanager
async def database_hub(
    directory: Path, database: str, port: int, grpc_port: int, *, clock: Clock = SYSTEM, random: Random = chance.random
) -> AsyncIterator[DatabaseHub]:
    """The prepared hub with its API served; `directory` is for files. Raises StoreError, OSError, InstallError and KubeError."""
    make_private_directory(directory)
    options = SqlHubOptions(database, directory / "kubeconfig", host=HOST, port=port)
    async with sql_hub(options, registration.install_base, clock=clock) as hub:
        made = DatabaseHub(hub, directory, grpc_port, _identity(directory), clock, random)
        await made.prepare()
        yield made
