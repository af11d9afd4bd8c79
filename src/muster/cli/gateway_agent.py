"""`muster gateway-agent`: connects the hub's gateway to a managed cluster that it cannot reach itself.

It is the agent of the addon `cluster-gateway`, which deploys it where it is enabled. It opens tunnels from the managed cluster,
through the hub's API server with the credential of its addon, or directly to the gateway (`--tunnel-url`), and uses `HTTPS_PROXY`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from muster.cli.examples import examples
from muster.cli.hub_address import find_hub, until_moved
from muster.cli.log_options import log_options
from muster.cli.process import (
    ANY_ADDRESS,
    LOOPBACK,
    PROCESS,
    ProcessEnv,
    cluster_problem,
    explained,
    find_cluster,
    run_until_stopped,
)
from muster.cli.values import FilePath
from muster.gateway.apiservice import API_VERSIONS

if TYPE_CHECKING:
    from muster.gateway.tunnel.agent import AgentOptions
    from muster.runtime.client import ClientConfig


@click.command(
    "gateway-agent",
    short_help="Run a managed cluster's gateway agent.",
    epilog=examples("muster gateway-agent --cluster-name cluster1 --hub-kubeconfig hub.kubeconfig"),
)
@click.option("--cluster-name", required=True, help="Name of this cluster on the hub.")
@click.option(
    "--kubeconfig",
    "--hub-kubeconfig",
    "hub_kubeconfig",
    type=FilePath(dir_okay=False),
    required=True,
    help="Path to the kubeconfig file of the hub.",
)
@click.option(
    "--spoke-kubeconfig",
    type=FilePath(dir_okay=False),
    help="Path to the kubeconfig file of the managed cluster.  [default: in-cluster, or kubectl's]",
)
@click.option("--context", default="", help="Context of the managed cluster's kubeconfig.  [default: the current one]")
@click.option(
    "--tunnel-url",
    default="",
    metavar="URL",
    help="URL of the gateway, if the agent connects to it directly.  [default: through the hub's API server]",
)
@click.option(
    "--tunnel-ca-file",
    type=FilePath(dir_okay=False),
    help="Path to the CA certificate that verifies the gateway at --tunnel-url.  [default: the hub's CA]",
)
@click.option(
    "--tunnel-server-name",
    default="",
    help="Name required in the gateway's serving certificate.  [default: the host of --tunnel-url]",
)
@click.option(
    "--api-version",
    type=click.Choice(API_VERSIONS),
    default=API_VERSIONS[0],
    show_default=True,
    help="Version of the gateway's API.",
)
@click.option("--health-host", help="Address to serve health checks and metrics on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]")
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to serve health checks and metrics on; 0 picks a free one.",
)
@log_options
def command(**options: Any) -> None:
    """Run the gateway agent, which opens tunnels through which the gateway reaches this cluster's API server only."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    hub: ClientConfig
    hub_url: str
    hub_file: Path
    options: AgentOptions
    health: tuple[str, int]


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    """Raises click's errors for invalid flags."""
    from muster.api.proxy.v1alpha1 import GROUP
    from muster.gateway.tunnel.agent import AgentOptions
    from muster.kube.names import dns1123_label
    from muster.registration.drivers.kubeconfigs import KUBECONFIGS

    if problems := dns1123_label(given["cluster_name"]):
        raise click.BadParameter(f"{given['cluster_name']!r} cannot name a cluster: {problems[0]}", param_hint="--cluster-name")
    spoke = find_cluster(given["spoke_kubeconfig"], given["context"], here)
    server = urlsplit(spoke.config.server)
    if server.scheme != "https" or not server.hostname:
        raise click.ClickException(f"{spoke.config.server}: the managed cluster's API server must speak TLS (https)")
    file = here.path(given["hub_kubeconfig"])
    hub_url = find_hub(file, KUBECONFIGS).url
    hub = find_cluster(str(file), "", here).config
    if given["tunnel_url"]:
        hub = _straight(hub, given, here)
    elif given["tunnel_ca_file"] or given["tunnel_server_name"]:
        raise click.UsageError("--tunnel-ca-file and --tunnel-server-name are for --tunnel-url")
    host = here.bind(given["health_host"] or (ANY_ADDRESS if spoke.in_pod else LOOPBACK))
    options = AgentOptions(
        given["cluster_name"],
        f"/apis/{GROUP}/{given['api_version']}",
        server.hostname,
        server.port or 443,
        server.path.rstrip("/"),
    )
    return Settings(hub, hub_url, file, options, (host, given["health_port"]))


def _straight(hub: ClientConfig, given: dict[str, Any], here: ProcessEnv) -> ClientConfig:
    """The same identity, at the gateway's own address."""
    url = urlsplit(given["tunnel_url"])
    if url.scheme != "https" or not url.hostname or url.query or url.fragment or url.username is not None:
        raise click.BadParameter("expected https://host[:port]", param_hint="--tunnel-url")
    hub = replace(hub, server=given["tunnel_url"].rstrip("/"), tls_server_name=given["tunnel_server_name"])
    return replace(hub, ca=here.path(given["tunnel_ca_file"])) if given["tunnel_ca_file"] else hub


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(lambda error: cluster_problem(error, "the hub", "--health-port")):
        await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.gateway.tunnel.agent import TunnelAgent
    from muster.machinery.metrics import Metrics
    from muster.runtime.client import HttpClient
    from muster.runtime.controller import RunnableFunc
    from muster.runtime.process import serve as serve_manager

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        hub = HttpClient(settings.hub, agent="muster-gateway-agent", metrics=metrics)
        stack.push_async_callback(hub.close)
        agent = TunnelAgent(hub, settings.options, metrics=metrics)
        stack.push_async_callback(agent.stop)
        agent.add("the hub's address", RunnableFunc(partial(_until_moved, settings)), needs_leader_election=False)
        cluster = settings.options.cluster
        await serve_manager(
            agent,
            metrics,
            settings.health,
            lambda port: here.info(f"started: tunnels of {cluster} to {hub.server}; health on port {port}"),
        )


async def _until_moved(settings: Settings) -> None:
    """Ends the agent when its cluster has moved to another hub: its restart uses that one."""
    from muster.registration.drivers.kubeconfigs import KUBECONFIGS

    found = await until_moved(settings.hub_file, KUBECONFIGS, settings.hub_url)
    raise click.ClickException(f"the hub is now {found}; starting anew")
