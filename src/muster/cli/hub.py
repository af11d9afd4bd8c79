"""`muster hub`: runs the hub's registration controllers and webhooks.

By default it first installs its CRDs and permissions, which takes an administrator's permissions. To run it with its own
permissions only, install once with `--install-only` as administrator, then run it as `registration-controller-sa` with
`--no-install`. Upstream's flag names are accepted beside ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from muster.cli.component import CommonFlags, HubComponent, cluster_options, common_flags, process_options, serve_component
from muster.cli.driver_flags import driver_flags, driver_settings
from muster.cli.examples import examples
from muster.cli.process import PROCESS, ProcessEnv, cluster_problem, explained, run_until_stopped
from muster.cli.values import Duration, Gates, Names, Pairs
from muster.registration.drivers.flags import DEFAULT, HUB_FLAGS
from muster.registration.names import AGENT_RESTRICTION, HUB_GATES, HUB_LOCK, HUB_UNSUPPORTED_GATES

if TYPE_CHECKING:
    from muster.registration.hub.options import HubOptions
    from muster.registration.hub.webhook_server import Webhooks
    from muster.runtime.client import KubeClient


@click.command(
    "hub",
    short_help="Run the hub's registration controllers.",
    epilog=examples(
        "muster hub --kubeconfig hub.kubeconfig",
        "muster hub --kubeconfig hub.kubeconfig --feature-gates ManagedClusterAutoApproval=true --auto-approved-csr-users alice",
    ),
)
@cluster_options
@click.option(
    "--enabled-registration-drivers",
    "drivers",
    type=Names(),
    multiple=True,
    help=f"Registration drivers by which agents may authenticate.  [default: {DEFAULT}]",
)
@driver_flags(HUB_FLAGS)
@click.option(
    "--feature-gates",
    "gates",
    type=Gates(HUB_GATES, HUB_UNSUPPORTED_GATES),
    multiple=True,
    help=f"Comma-separated Gate=true|false pairs. Known gates: {', '.join(HUB_GATES)}.",
)
@click.option(
    "--gc-resource-list",
    type=Names(),
    multiple=True,
    help="Resources (group/version/plural) deleted before the namespace of a deleted cluster, in this order.",
)
@click.option("--labels", type=Pairs(), multiple=True, help="Labels of all objects that are created for a cluster.")
@click.option("--remove-denied-after", type=Duration(), help="Duration after which denied clusters are deleted.  [default: never]")
@process_options
def command(**options: Any) -> None:
    """Run the hub's registration controllers, which accept clusters, monitor their leases and clean up after them."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_hub(settings(options))


@dataclass(frozen=True)
class Settings:
    common: CommonFlags
    options: HubOptions


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    from muster.registration.hub.options import CLEANED_RESOURCES, HubOptions

    common = common_flags(given, here)
    gates = dict(_flat(given["gates"]))
    options = HubOptions(
        namespace=common.namespace,
        drivers=_flat(given["drivers"]) or (DEFAULT,),
        driver_options=driver_settings(HUB_FLAGS, given),
        auto_approval=gates.get("ManagedClusterAutoApproval", False),
        default_cluster_set=gates.get("DefaultClusterSet", True),
        agent_restriction=gates.get(AGENT_RESTRICTION, False),
        resource_cleanup=gates.get("ResourceCleanup", True),
        cleaned_resources=_cleaned(_flat(given["gc_resource_list"])) or CLEANED_RESOURCES,
        labels=_labels(dict(_flat(given["labels"]))),
        remove_denied_after=given["remove_denied_after"],
    )
    return Settings(common, options)


def _flat(given: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    return tuple(value for values in given for value in values)


def _cleaned(names: tuple[str, ...]) -> tuple[str, ...]:
    from muster.registration.hub.clusters.collection import parse_resource

    for name in names:
        try:
            parse_resource(name)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--gc-resource-list") from None
    return names


def _labels(labels: dict[str, str]) -> dict[str, str]:
    from muster.kube.names import label_value, qualified_name

    for key, value in labels.items():
        if problems := [*qualified_name(key), *label_value(value)]:
            raise click.BadParameter(f"{key}={value}: {problems[0]}", param_hint="--labels")
    return labels


def run_hub(settings: Settings) -> None:
    run_until_stopped(serve(settings))


def _explain(error: Exception) -> click.ClickException | None:
    from muster.machinery.tasks import RunnableEnded
    from muster.registration.drivers import BrokenDriver, UnknownDriver
    from muster.registration.drivers.interfaces import DriverError
    from muster.runtime.install import InstallError

    match error:
        case UnknownDriver() | BrokenDriver():
            return click.BadParameter(str(error), param_hint="--enabled-registration-drivers")
        case DriverError() | InstallError() | RunnableEnded():
            return click.ClickException(str(error))
    return cluster_problem(error, "the hub cluster", "--health-port")


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(_explain):
        await serve_component(settings.common, _component(settings.options), here)


def _component(options: HubOptions) -> HubComponent[Webhooks]:
    from muster.aws.process_env import found
    from muster.registration import drivers
    from muster.registration.hub.install import install, install_namespaces
    from muster.registration.hub.manager import Hub
    from muster.registration.hub.webhook_server import Webhooks

    async def install_all(client: KubeClient, webhooks: Webhooks | None) -> None:
        rules = [drivers.profile_rules(name, options.driver_options) for name in options.drivers]
        endpoint = webhooks.endpoint if webhooks else None
        await install(client, namespace=options.namespace, webhooks=endpoint, drivers=rules)

    return HubComponent(
        "hub",
        "muster-hub",
        HUB_LOCK,
        manager=lambda client, metrics: Hub(client, options, metrics=metrics, process_env=found()),
        webhooks=lambda client, serving: Webhooks(client, options, serving),
        install_namespaces=lambda client: install_namespaces(client, options.namespace),
        install=install_all,
    )
