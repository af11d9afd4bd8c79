"""`muster placement`: runs the controller that selects clusters for Placements.

By default it first installs its CRDs and permissions, which takes an administrator's permissions. To run it with its own
permissions only, install once with `--install-only` as administrator, then run it as `placement-controller-sa` with `--no-install`.
Upstream's flag names are accepted beside ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from muster.cli.component import (
    CommonFlags,
    HubComponent,
    cluster_options,
    common_flags,
    component_problem,
    controller_options,
    serve_component,
)
from muster.cli.examples import examples
from muster.cli.process import ANY_ADDRESS, LOOPBACK, PROCESS, ProcessEnv, explained, in_pod, run_until_stopped
from muster.cli.values import Gates
from muster.placement.hub.options import DEBUG_SERVER, GATES, UNSUPPORTED_GATES, PlacementOptions

if TYPE_CHECKING:
    from muster.placement.hub.debug_server import DebugOptions
    from muster.runtime.client import KubeClient
    from muster.runtime.webhook import WebhookServing


@click.command(
    "placement",
    short_help="Run the hub's placement controller.",
    epilog=examples(
        "muster placement --kubeconfig hub.kubeconfig",
        "muster placement --kubeconfig hub.kubeconfig --feature-gates PlacementDebugServer=true --debug-port 9443",
    ),
)
@cluster_options
@click.option(
    "--feature-gates",
    "gates",
    type=Gates(GATES, UNSUPPORTED_GATES),
    multiple=True,
    help=f"Comma-separated Gate=true|false pairs. Known gates: {', '.join(GATES)}.",
)
@click.option("--debug-host", help="Address to serve the debug endpoint on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]")
@click.option(
    "--debug-port",
    type=click.IntRange(0, 65535),
    default=9443,
    show_default=True,
    help="Port to serve the debug endpoint on; 0 picks a free one.",
)
@controller_options
def command(**options: Any) -> None:
    """Run the placement controller, which selects clusters for Placements and updates their PlacementDecisions."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    common: CommonFlags
    options: PlacementOptions
    debug: DebugOptions | None


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    from muster.placement.hub.debug_server import DebugOptions

    common = common_flags(given, here)
    gates = dict(gate for gates in given["gates"] for gate in gates)
    host = given["debug_host"] or (ANY_ADDRESS if in_pod(given["kubeconfig"], given["context"], here) else LOOPBACK)
    debug = DebugOptions(here.bind(host), given["debug_port"]) if gates.get(DEBUG_SERVER) else None
    return Settings(common, PlacementOptions(namespace=common.namespace), debug)


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(component_problem("--health-port or --debug-port")):
        await serve_component(settings.common, _component(settings), here)


def _component(settings: Settings) -> HubComponent[WebhookServing]:
    from muster.placement.hub.install import LOCK, install
    from muster.placement.hub.manager import PlacementManager
    from muster.runtime.install import ensure_namespace

    options = settings.options

    async def install_all(client: KubeClient, webhooks: WebhookServing | None) -> None:
        await install(client, options)

    return HubComponent(
        "placement",
        "muster-placement",
        LOCK,
        manager=lambda client, metrics: PlacementManager(client, options, metrics=metrics, debug=settings.debug),
        install_namespaces=lambda client: ensure_namespace(client, options.namespace),
        install=install_all,
    )
