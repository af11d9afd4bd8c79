"""`muster hub-addons`: runs the hub's side of the addons that are part of Muster.

The hub's addon manager, Muster's or upstream's, decides on which clusters they are installed; this process creates the manifests
and permissions of their agents. By default it first installs its CRDs and permissions, which takes an administrator's permissions.
To run it with its own permissions only, install once with `--install-only` as administrator, then run it as
`hub-addons-controller-sa` with `--no-install`.
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
from muster.cli.process import PROCESS, ProcessEnv, explained, run_until_stopped
from muster.cli.values import Names

if TYPE_CHECKING:
    from muster.addon.hub_addon import HubAddon
    from muster.runtime.client import KubeClient
    from muster.runtime.webhook import WebhookServing


@click.command(
    "hub-addons",
    short_help="Run the managers of Muster's built-in add-ons.",
    epilog=examples("muster hub-addons --kubeconfig hub.kubeconfig --names managed-serviceaccount,cluster-gateway"),
)
@cluster_options
@click.option("--names", type=Names(), multiple=True, help="Names of the add-ons to manage.  [default: all]")
@click.option("--agent-image", default="", help="Image of the add-ons' agents.  [default: Muster's image of this version]")
@controller_options
def command(**options: Any) -> None:
    """Run the managers of the built-in add-ons: managed-serviceaccount, cluster-gateway and the policy add-ons."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    common: CommonFlags
    addons: tuple[HubAddon, ...]
    image: str


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    from muster.operator.hub_addons import HUB_ADDONS
    from muster.operator.names import image

    names = list(dict.fromkeys(name for names in given["names"] for name in names)) or list(HUB_ADDONS)
    if unknown := [name for name in names if name not in HUB_ADDONS]:
        raise click.BadParameter(f"no addon {unknown[0]!r}; there are {', '.join(HUB_ADDONS)}", param_hint="--names")
    return Settings(common_flags(given, here), tuple(HUB_ADDONS[name] for name in names), given["agent_image"] or image())


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(component_problem()):
        await serve_component(settings.common, _component(settings), here)


def _component(settings: Settings) -> HubComponent[WebhookServing]:
    from muster.addon.hub_addon import LOCK, PROCESS, hub_addon_manager, install
    from muster.addon.options import AddonOptions
    from muster.runtime.install import ensure_namespace

    namespace = settings.common.namespace

    async def install_all(client: KubeClient, webhooks: WebhookServing | None) -> None:
        await install(client, settings.addons, namespace)

    return HubComponent(
        "hub addons",
        PROCESS,
        LOCK,
        manager=lambda client, metrics: hub_addon_manager(
            client, settings.addons, settings.image, AddonOptions(namespace=namespace), metrics=metrics
        ),
        install_namespaces=lambda client: ensure_namespace(client, namespace),
        install=install_all,
    )
