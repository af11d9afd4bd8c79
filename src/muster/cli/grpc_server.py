"""`muster grpc-server`: serves registration and works over gRPC, so that agents need no access to the hub's API server.

Upstream's flags and configuration file are accepted. Every replica serves; there is no leader. On shutdown it sends GOAWAY to its
clients, which connect to another server, and completes requests in flight.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from muster.cli.component import health_options, host_port
from muster.cli.examples import examples
from muster.cli.grpc_persistence import open_persistence, persistence, persistence_options
from muster.cli.log_options import log_options
from muster.cli.process import (
    ANY_ADDRESS,
    LOOPBACK,
    PROCESS,
    FoundCluster,
    ProcessEnv,
    cluster_problem,
    explained,
    in_pod,
    run_until_stopped,
)
from muster.cli.values import Duration, FilePath, Gates, Names
from muster.machinery.allocation import freeze_heap
from muster.machinery.oserrors import explain_file_error
from muster.machinery.tasks import race
from muster.registration.names import AGENT_RESTRICTION, HUB_GATES, HUB_UNSUPPORTED_GATES
from muster.transport.persistence import KUBE

if TYPE_CHECKING:
    from pathlib import Path

    from muster.transport.server.config import GrpcServerConfig
    from muster.transport.server.server import GrpcServerOptions
    from muster.transport.services.store.hub import SqlHubOptions

TLS_VERSIONS: Final = ("VersionTLS12", "VersionTLS13")
MINIMUM_HEARTBEAT: Final = 10.0
FILE_CHECK_INTERVAL: Final = 1.0


@click.command(
    "grpc-server",
    short_help="Run the hub's gRPC server for agents.",
    epilog=examples(
        "muster grpc-server --kubeconfig hub.kubeconfig --server-config config.yaml",
        "muster grpc-server --persistence sql --database sqlite:///hub.db --write-kubeconfig hub.kubeconfig",
    ),
)
@click.option(
    "--server-config",
    type=FilePath(dir_okay=False),
    help="Configuration file in upstream's format: port, TLS files, limits.  [default: upstream's defaults]",
)
@click.option(
    "--kubeconfig",
    type=FilePath(dir_okay=False),
    help="Path to the kubeconfig file of the hub cluster.  [default: in-cluster, or kubectl's]",
)
@click.option("--context", default="", help="Name of the kubeconfig context to use.  [default: the current one]")
@click.option("--namespace", default="open-cluster-management-hub", show_default=True, help="Namespace of the hub components.")
@click.option(
    "--install-only", is_flag=True, help="Create the server's service account and RBAC rules on the hub cluster, then exit."
)
@persistence_options
@click.option("--bind-host", help="Address to serve agents on.  [default: all addresses]")
@click.option(
    "--bind-port",
    type=click.IntRange(0, 65535),
    help="Port to serve agents on; 0 picks a free one.  [default: the configuration file's, else 8090]",
)
@click.option(
    "--broker-heartbeat-interval",
    type=Duration(),
    default="10s",
    show_default=True,
    help=f"Interval between heartbeats on a stream, at least {MINIMUM_HEARTBEAT:g}s.",
)
@click.option("--broker-heartbeat-disabled", is_flag=True, help="Disable heartbeats on the streams.")
@click.option(
    "--tls-min-version", type=click.Choice(TLS_VERSIONS), help="Minimum version of TLS.  [default: the configuration file's]"
)
@click.option(
    "--tls-cipher-suites", type=Names(), help="Cipher suites of TLS 1.2, by their IANA names.  [default: the configuration file's]"
)
@click.option(
    "--feature-gates",
    "gates",
    type=Gates(HUB_GATES, HUB_UNSUPPORTED_GATES),
    multiple=True,
    help=f"Comma-separated Gate=true|false pairs of the hub; {AGENT_RESTRICTION} and DefaultClusterSet have an effect here.",
)
@click.option(
    "--kube-api-qps", type=float, default=0.0, help="Request rate limit; accepted for compatibility and not used.", hidden=True
)
@click.option(
    "--kube-api-burst", type=int, default=0, help="Request burst limit; accepted for compatibility and not used.", hidden=True
)
@click.option("--terminate-on-files", type=Names(), multiple=True, help="Files whose change makes the process exit.")
@health_options
@log_options
def command(**options: Any) -> None:
    """Run the gRPC server, which serves registration, works, add-ons, leases and events to agents in OCM's wire format."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    chosen = settings(options)
    run_until_stopped(install(chosen) if options["install_only"] else serve(chosen))


@dataclass(frozen=True)
class Settings:
    objects: FoundCluster | SqlHubOptions
    """The storage of objects."""
    namespace: str
    options: GrpcServerOptions
    health: tuple[str, int]
    terminate_on: tuple[Path, ...] = ()


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    """Raises click's errors for invalid flags."""
    from muster.api.cluster.write_rules import ClusterWriteRules
    from muster.transport.server.server import GrpcServerOptions

    heartbeat = None if given["broker_heartbeat_disabled"] else given["broker_heartbeat_interval"]
    if heartbeat is not None and heartbeat < MINIMUM_HEARTBEAT:
        raise click.BadParameter(f"{heartbeat:g}s is too short", param_hint="--broker-heartbeat-interval")
    everywhere = ANY_ADDRESS if in_pod(given["kubeconfig"], given["context"], here) else LOOPBACK
    gates = dict(gate for gates in given["gates"] for gate in gates)
    options = GrpcServerOptions(
        _config(given, here),
        here.bind(given["bind_host"] or ""),
        heartbeat,
        ClusterWriteRules(gates.get("DefaultClusterSet", True), gates.get(AGENT_RESTRICTION, False)),
    )
    host, port = host_port(given["listen"]) if given["listen"] else (given["health_host"] or everywhere, given["health_port"])
    return Settings(
        persistence(given, here),
        given["namespace"],
        options,
        (here.bind(host), port),
        tuple(here.path(name) for names in given["terminate_on_files"] for name in names),
    )


def _config(given: dict[str, Any], here: ProcessEnv) -> GrpcServerConfig:
    from muster.machinery.confinement import shown
    from muster.transport.server.config import ConfigError, GrpcServerConfig, cipher_suites, read_config, tls_version

    config = GrpcServerConfig()
    if given["server_config"]:
        path = here.path(given["server_config"])
        try:
            config = read_config(path)
        except ConfigError as error:
            raise click.ClickException(f"--server-config: {shown(path)}: {error}") from None
        except OSError as error:
            raise click.ClickException(f"--server-config: {shown(path)}: {explain_file_error(error)}") from None
    changes: dict[str, Any] = {}
    if given["bind_port"] is not None:
        changes["server_bind_port"] = given["bind_port"]
    if given["tls_min_version"]:
        changes["tls_min_version"] = tls_version(given["tls_min_version"])
    if given["tls_cipher_suites"]:
        try:
            changes["cipher_suites"] = cipher_suites(",".join(given["tls_cipher_suites"]))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--tls-cipher-suites") from None
    return replace(config, **changes)


def _explain(error: Exception) -> click.ClickException | None:
    from muster.machinery.tasks import RunnableEnded
    from muster.runtime.install import InstallError
    from muster.store.api import StoreError
    from muster.transport.server.config import ConfigError

    if isinstance(error, ConfigError | RunnableEnded | StoreError | InstallError):
        return click.ClickException(str(error))
    return cluster_problem(error, "the hub cluster", "--bind-port or --health-port")


async def install(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    from muster.machinery.metrics import Metrics
    from muster.transport.server.install import install

    if not isinstance(settings.objects, FoundCluster):
        raise click.UsageError(f"--install-only is for --persistence {KUBE}: of a database the server is the administrator itself")
    with explained(_explain):
        async with AsyncExitStack() as stack:
            client = settings.objects.connect_in(stack, "muster-grpc-server", Metrics())
            await install(client, settings.namespace)
            here.info(f"installed on {client.server}")


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(_explain):
        if settings.terminate_on:
            await race(_serve(settings, here), _until_changed(settings.terminate_on, here))
        else:
            await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.machinery.metrics import Metrics
    from muster.runtime.process import serve
    from muster.transport.server.server import GrpcServer

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client, services, problem = await open_persistence(settings.objects, settings.options, stack, metrics)
        server = GrpcServer(client, settings.options, services=services, path=here.path, metrics=metrics)
        server.add_ready_check("store", problem)
        stack.push_async_callback(server.stop)
        await server.start()

        def announce(port: int) -> None:
            freeze_heap()
            here.info(f"ready: gRPC server of {client.server} on port {server.port}; health on port {port}")

        await serve(server, metrics, settings.health, announce, once_synced=True)


async def _until_changed(paths: tuple[Path, ...], here: ProcessEnv) -> None:
    """Wait until one of the files differs from its content at the start."""
    from muster.machinery.confinement import shown

    known = await asyncio.to_thread(_contents, paths)
    while True:
        await asyncio.sleep(FILE_CHECK_INTERVAL)
        found = await asyncio.to_thread(_contents, paths)
        for path in paths:
            if found[path] != known[path]:
                here.info(f"ending, because {shown(path)} has changed")
                return


def _contents(paths: tuple[Path, ...]) -> dict[Path, bytes | None]:
    from muster.machinery.confinement import read

    found: dict[Path, bytes | None] = {}
    for path in paths:
        try:
            found[path] = read(path)
        except OSError:
            found[path] = None
    return found
