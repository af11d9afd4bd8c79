"""`muster addon-manager`: runs the addon manager, which installs, configures and registers addons on clusters.

By default it first installs its CRDs and permissions, which takes an administrator's permissions. To run it with its own
permissions only, install once with `--install-only` as administrator, then run it as `addon-manager-controller-sa` with
`--no-install`. Upstream's flag names are accepted beside ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from muster.addon.options import ADDON_MANAGEMENT, GATES, AddonOptions
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
from muster.cli.process import PROCESS, ProcessEnv, explained, run_until_stopped
from muster.cli.values import Gates

if TYPE_CHECKING:
    from muster.runtime.client import KubeClient
    from muster.runtime.webhook import WebhookServing


@click.command(
    "addon-manager",
    short_help="Run the hub's add-on manager.",
    epilog=examples(
        "muster addon-manager --kubeconfig hub.kubeconfig",
        "muster addon-manager --kubeconfig hub.kubeconfig --install-only",
    ),
)
@cluster_options
@click.option(
    "--feature-gates",
    "gates",
    type=Gates(GATES, ()),
    multiple=True,
    help=f"Comma-separated Gate=true|false pairs. Known gates: {', '.join(GATES)}.",
)
@controller_options
def command(**options: Any) -> None:
    """Run the add-on manager, which installs add-ons on clusters, rolls out their configuration and deploys their agents."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    common: CommonFlags
    options: AddonOptions


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    common = common_flags(given, here)
    gates = dict(gate for gates in given["gates"] for gate in gates)
    if not gates.get(ADDON_MANAGEMENT, True):
        raise click.BadParameter(f"{ADDON_MANAGEMENT}=false leaves nothing to run: do not start it", param_hint="--feature-gates")
    return Settings(common, AddonOptions(namespace=common.namespace))


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(component_problem()):
        await serve_component(settings.common, _component(settings.options), here)


def _component(options: AddonOptions) -> HubComponent[WebhookServing]:
    from muster.addon.install import LOCK, install
    from muster.addon.process import AddonManager
    from muster.runtime.install import ensure_namespace

    async def install_all(client: KubeClient, webhooks: WebhookServing | None) -> None:
        await install(client, options)

    return HubComponent(
        "addon manager",
        "muster-addon-manager",
        LOCK,
        manager=lambda client, metrics: AddonManager(client, options, metrics=metrics),
        install_namespaces=lambda client: ensure_namespace(client, options.namespace),
        install=install_all,
    )
