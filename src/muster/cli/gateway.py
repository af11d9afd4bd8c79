"""`muster gateway`: serves `clustergateways`, the proxy to every managed cluster, as an aggregated API of the hub.

An operator runs it without installation (`--no-install`) and with its certificate (`--cert-dir`). Run manually it first installs
its APIService and permissions, which takes an administrator's permissions and an address at which the hub's API server reaches it
(`--service-host`). To run it with its own permissions only, install once with `--install-only` as administrator, then run it as
`cluster-gateway-sa` with `--no-install`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from muster.cli.component import cluster_options, component_problem, health_options, host_port
from muster.cli.examples import examples
from muster.cli.log_options import log_options
from muster.cli.process import (
    ANY_ADDRESS,
    LOOPBACK,
    PROCESS,
    FoundCluster,
    ProcessEnv,
    explained,
    find_cluster,
    in_pod,
    run_until_stopped,
)
from muster.cli.values import FilePath
from muster.gateway.apiservice import API_VERSIONS, api_services
from muster.gateway.names import CLUSTER_PROXY_PORT
from muster.machinery.oserrors import explain_file_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from muster.gateway.authorization import Denial, ImpersonationFile
    from muster.gateway.konnectivity.cluster_proxy import ClusterProxyOptions
    from muster.gateway.server import GatewayOptions
    from muster.gateway.serving_certificate import ServingCertificateSource
    from muster.gateway.standalone import StandaloneGateway
    from muster.runtime.client import KubeClient


@click.command(
    "gateway",
    short_help="Run the cluster gateway, which proxies requests to managed clusters.",
    epilog=examples(
        "muster gateway --kubeconfig hub.kubeconfig --service-host 127.0.0.1",
        "muster gateway --kubeconfig hub.kubeconfig --service-host 127.0.0.1 --deny secrets@cluster1",
    ),
)
@cluster_options
@click.option("--bind-address", help="Address to serve the gateway on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]")
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=9444,
    show_default=True,
    help="Port to serve the gateway on; 0 picks a free one.",
)
@click.option(
    "--cert-dir",
    type=FilePath(file_okay=False),
    help="Directory with tls.crt and tls.key for serving.  [default: a certificate of its own, in a Secret]",
)
@click.option(
    "--service-host", default="", help="Host at which the hub's API server reaches the gateway; required for the installation."
)
@click.option(
    "--api-version",
    type=click.Choice(API_VERSIONS),
    default=API_VERSIONS[0],
    show_default=True,
    help="Version in which proxy.open-cluster-management.io is served, for hubs where another server has v1alpha1.",
)
@click.option("--oam-api", is_flag=True, help="Serve cluster.core.oam.dev/v1alpha1 too, for clients of upstream's gateway.")
@click.option("--allow-loopback-endpoints", is_flag=True, help="Allow clusters whose API server is on the gateway's own machine.")
@click.option(
    "--http2",
    is_flag=True,
    help="Offer HTTP/2 on the port, for a single replica: the hub's API server then sends all requests through one connection.",
)
@click.option(
    "--exempt-discovery/--no-exempt-discovery",
    default=True,
    show_default=True,
    help="Allow discovery requests without the virtual verb of the cluster.",
)
@click.option(
    "--hub-namespaces/--no-hub-namespaces",
    default=True,
    show_default=True,
    help="Apply RoleBindings of a hub namespace to the namespace of the same name on clusters.",
)
@click.option(
    "--deny",
    "denials",
    multiple=True,
    metavar="RULE",
    help="Requests to deny for everybody: `tokens` or `secrets`, optionally followed by @CLUSTER. Repeatable.",
)
@click.option(
    "--impersonation-config",
    type=FilePath(dir_okay=False),
    help="Path to the rules by which callers are impersonated on clusters.  [default: no impersonation]",
)
@click.option("--proxy-host", default="", help="Host of cluster-proxy's entrypoint, for clusters reached through cluster-proxy.")
@click.option(
    "--proxy-port",
    type=click.IntRange(1, 65535),
    default=CLUSTER_PROXY_PORT,
    show_default=True,
    help="Port of cluster-proxy's entrypoint.",
)
@click.option(
    "--proxy-ca-cert", type=FilePath(dir_okay=False), help="Path to the CA certificate that verifies cluster-proxy's entrypoint."
)
@click.option("--proxy-cert", type=FilePath(dir_okay=False), help="Path to the client certificate for cluster-proxy's entrypoint.")
@click.option("--proxy-key", type=FilePath(dir_okay=False), help="Path to the private key of the certificate in --proxy-cert.")
@click.option(
    "--audit-log", type=FilePath(dir_okay=False), help="Path of the audit log, which has one line for every request to a cluster."
)
@health_options
@log_options
def command(**options: Any) -> None:
    """Run the cluster gateway, which serves the API of every managed cluster at clustergateways/NAME/proxy."""
    from muster.machinery import allocation, logs

    allocation.map_large_blocks()  # before the following imports allocate memory
    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    cluster: FoundCluster
    namespace: str
    options: GatewayOptions
    certificates: Path | None
    install: StandaloneGateway | None
    """None: it is installed already."""
    install_only: bool
    health: tuple[str, int]


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    """Raises click's errors for invalid flags."""
    from muster.gateway.authorization import AuthorizationOptions
    from muster.gateway.server import GatewayOptions
    from muster.gateway.standalone import StandaloneGateway

    if given["install_only"] and not given["install"]:
        raise click.UsageError("--install-only and --no-install contradict each other")
    everywhere = ANY_ADDRESS if in_pod(given["kubeconfig"], given["context"], here) else LOOPBACK
    health = host_port(given["listen"]) if given["listen"] else (given["health_host"] or everywhere, given["health_port"])
    served = tuple(api_services(given["api_version"], oam=given["oam_api"]))
    options = GatewayOptions(
        here.bind(given["bind_address"] or everywhere),
        given["secure_port"],
        served,
        given["allow_loopback_endpoints"],
        here.path(given["audit_log"]) if given["audit_log"] else None,
        AuthorizationOptions(given["exempt_discovery"], given["hub_namespaces"], tuple(map(_denial, given["denials"]))),
        _impersonation(given, here),
        _cluster_proxy(given, here),
        given["http2"],
    )
    installed = None
    if given["install"]:
        if not given["service_host"]:
            raise click.UsageError(
                "give the address at which the hub's API server reaches the gateway: --service-host; or --no-install"
            )
        if not given["secure_port"]:
            raise click.UsageError("to install, the port must be known: --secure-port")
        installed = StandaloneGateway(given["namespace"], given["service_host"], given["secure_port"], served)
    return Settings(
        find_cluster(given["kubeconfig"], given["context"], here),
        given["namespace"],
        options,
        here.path(given["cert_dir"]) if given["cert_dir"] else None,
        installed,
        given["install_only"],
        (here.bind(health[0]), health[1]),
    )


def _denial(text: str) -> Denial:
    from muster.gateway.authorization import parse_denial

    try:
        return parse_denial(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--deny") from None


def _impersonation(given: dict[str, Any], here: ProcessEnv) -> ImpersonationFile | None:
    from muster.gateway.authorization import ConfigurationError, ImpersonationFile
    from muster.machinery.confinement import shown

    if not given["impersonation_config"]:
        return None
    path = here.path(given["impersonation_config"])
    try:
        return ImpersonationFile(path)
    except ConfigurationError as error:
        raise click.ClickException(f"--impersonation-config: {shown(path)}: {error}") from None
    except OSError as error:
        raise click.ClickException(f"--impersonation-config: {shown(path)}: {explain_file_error(error)}") from None


def _cluster_proxy(given: dict[str, Any], here: ProcessEnv) -> ClusterProxyOptions | None:
    """Its files may be created after the gateway has started, as in optional Secret volumes, and may change at any time."""
    from muster.gateway.konnectivity.cluster_proxy import ClusterProxyOptions

    flags = ("--proxy-ca-cert", "--proxy-cert", "--proxy-key")
    files = [given[flag.removeprefix("--").replace("-", "_")] for flag in flags]
    if not given["proxy_host"]:
        if any(files):
            raise click.UsageError(f"{', '.join(flags)} are for cluster-proxy: give its address with --proxy-host")
        return None
    missing = [flag for flag, file in zip(flags, files, strict=True) if not file]
    if missing:
        raise click.UsageError(f"cluster-proxy uses mutual TLS: --proxy-host needs {', '.join(missing)} too")
    return ClusterProxyOptions(given["proxy_host"], given["proxy_port"], *(here.path(file) for file in files))


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(component_problem("--secure-port or --health-port")):
        await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.gateway.server import GatewayServer
    from muster.gateway.standalone import apply_api_services, install
    from muster.machinery.allocation import freeze_heap
    from muster.machinery.metrics import Metrics
    from muster.runtime.process import serve

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client = settings.cluster.connect_in(stack, "muster-gateway", metrics)
        if settings.install is not None:
            await install(client, settings.install)
        if settings.install_only:
            assert settings.install is not None, "read so"
            await apply_api_services(client, settings.install)
            here.info(f"installed on {client.server}")
            return
        server = GatewayServer(
            client, settings.options, _serving(settings, client), announce=_announcement(settings, client), metrics=metrics
        )
        stack.push_async_callback(server.stop)
        await server.start()

        def announce(port: int) -> None:
            freeze_heap()
            here.info(f"ready: gateway of {client.server} on port {server.port}; health on port {port}")

        await serve(server, metrics, settings.health, announce, once_synced=True)


def _announcement(settings: Settings, client: KubeClient) -> Callable[[], Awaitable[None]] | None:
    from muster.gateway.announcement import announce
    from muster.gateway.apiservice import api_service_name
    from muster.gateway.standalone import apply_api_services

    if settings.certificates is not None and settings.install is None:
        return None  # an operator creates the APIServices

    async def announced() -> None:
        if settings.install is not None:
            await apply_api_services(client, settings.install)
        await announce(client, [api_service_name(version, group) for group, version in settings.options.served])

    return announced


def _serving(settings: Settings, client: KubeClient) -> ServingCertificateSource:
    from muster.gateway.serving_certificate import CertificateFiles, ManagedCertificate

    if settings.certificates is not None:
        return CertificateFiles(settings.certificates)
    return ManagedCertificate(client, settings.namespace, list(settings.options.served))
