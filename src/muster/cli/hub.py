"""`muster hub`: run the hub's registration controllers and webhooks until told to stop.

By default it first installs what it needs, which takes an administrator's rights. To run it with its own rights only, install once
with `--install-only` as administrator, then run it as `registration-controller-sa` with `--no-install`. Upstream's flag
names are accepted beside ours.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from muster.cli.leading import Leading
from muster.cli.process import (
    ANY_ADDRESS,
    LOOPBACK,
    PROCESS,
    FoundCluster,
    Surroundings,
    cluster_problem,
    explained,
    find_cluster,
    in_pod,
    run_until_stopped,
)
from muster.cli.values import Duration, Gates, Names, Pairs
from muster.registration.names import HUB_GATES, HUB_LOCK, HUB_UNSUPPORTED_GATES

if TYPE_CHECKING:
    from muster.registration.drivers.seam import DriverOptions
    from muster.registration.hub.manager import Hub
    from muster.registration.hub.options import HubOptions
    from muster.runtime.webhookserving import ServingOptions


@click.command("hub", short_help="Run the hub's registration controllers.")
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Of the hub cluster.  [default: in-cluster, or kubectl's]")
@click.option("--context", default="", help="Of the kubeconfig.  [default: the current one]")
@click.option("--namespace", default="open-cluster-management-hub", show_default=True, help="Where the hub keeps its own things.")
@click.option("--install/--no-install", default=True, show_default=True, help="Apply CRDs, roles and webhook configurations first.")
@click.option("--install-only", is_flag=True, help="Install and end.")
@click.option(
    "--enabled-registration-drivers", "drivers", type=Names(), multiple=True, help="How agents may register.  [default: csr]"
)
@click.option(
    "--auto-approved-csr-users",
    "--cluster-auto-approval-users",
    "csr_users",
    type=Names(),
    multiple=True,
    help="Users whose first request is approved unasked (with ManagedClusterAutoApproval).",
)
@click.option("--hub-cluster-arn", "aws_arn", multiple=True, help="Of the hub on EKS (awsirsa).")
@click.option("--auto-approved-arn-patterns", "aws_patterns", multiple=True, help="Clusters accepted unasked: a pattern (awsirsa).")
@click.option("--aws-resource-tags", "aws_tags", multiple=True, help="key=value, for what is made on AWS (awsirsa).")
@click.option("--auto-approved-grpc-users", "grpc_users", type=Names(), multiple=True, help="As for csr (grpc).")
@click.option("--driver-option", "driver_options", multiple=True, metavar="NAME.KEY=VALUE", help="Tell a driver (repeatable).")
@click.option(
    "--feature-gates", "gates", type=Gates(HUB_GATES, HUB_UNSUPPORTED_GATES), multiple=True, help=f"Of {', '.join(HUB_GATES)}."
)
@click.option(
    "--gc-resource-list", type=Names(), multiple=True, help="group/version/plural of what goes before a deleted cluster, in order."
)
@click.option("--labels", type=Pairs(), multiple=True, help="For every object that is made for a cluster.")
@click.option("--remove-denied-after", type=Duration(), help="Delete clusters so long after they were denied.  [default: never]")
@click.option("--webhook/--no-webhook", default=True, show_default=True, help="Serve admission and conversion webhooks.")
@click.option("--webhook-host", help="Address to listen on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]")
@click.option("--webhook-port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="0 picks a free one.")
@click.option(
    "--webhook-url", default="", help="Where the API server calls them.  [default: where they listen; in a cluster a Service]"
)
@click.option(
    "--webhook-cert-dir",
    type=click.Path(file_okay=False),
    help="Serve webhooks with tls.crt and tls.key of this directory.  [default: a certificate of their own, in a Secret]",
)
@click.option("--controllers/--no-controllers", default=True, show_default=True, help="Run the controllers, not only webhooks.")
@click.option("--health-host", help="Address to listen on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]")
@click.option("--health-port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0 picks a free one.")
@click.option("--listen", metavar="HOST:PORT", help="Both of the above.")
@click.option(
    "--leader-elect/--no-leader-elect",
    " /--disable-leader-election",
    default=True,
    show_default=True,
    help="Let one of several lead.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def command(**options: Any) -> None:
    """Run the hub's side of registration: accept clusters, watch over them, clean up after them."""
    from muster import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_hub(settings(options))


@dataclass(frozen=True)
class Settings:
    cluster: FoundCluster
    options: HubOptions
    install: bool
    install_only: bool
    webhooks: ServingOptions | None
    health: tuple[str, int]
    elect: bool
    controllers: bool = True


def settings(given: dict[str, Any], here: Surroundings = PROCESS) -> Settings:
    from muster.kube.names import dns1123_label
    from muster.registration.hub.options import CLEANED_RESOURCES, HubOptions
    from muster.runtime.webhookserving import ServingOptions

    if problems := dns1123_label(given["namespace"]):
        raise click.BadParameter(f"{given['namespace']!r}: {problems[0]}", param_hint="--namespace")
    if given["install_only"] and not given["install"]:
        raise click.UsageError("--install-only and --no-install contradict each other")
    if given["install_only"] and given["webhook"] and not (given["webhook_port"] or given["webhook_url"]):
        raise click.UsageError("--install-only must know where webhooks will be: give --webhook-port or --webhook-url")
    if given["webhook_cert_dir"] and given["install"]:
        raise click.UsageError("--webhook-cert-dir says nothing of whom to trust: install by other means and give --no-install")
    if not (given["controllers"] or given["webhook"]):
        raise click.UsageError("--no-controllers and --no-webhook leave nothing to run")
    in_cluster = in_pod(given["kubeconfig"], given["context"], here)
    everywhere = ANY_ADDRESS if in_cluster else LOOPBACK
    gates = dict(_flat(given["gates"]))
    options = HubOptions(
        namespace=given["namespace"],
        drivers=_flat(given["drivers"]) or ("csr",),
        driver_options=_driver_options(given),
        auto_approval=gates.get("ManagedClusterAutoApproval", False),
        default_cluster_set=gates.get("DefaultClusterSet", True),
        resource_cleanup=gates.get("ResourceCleanup", True),
        cleaned_resources=_cleaned(_flat(given["gc_resource_list"])) or CLEANED_RESOURCES,
        labels=_labels(dict(_flat(given["labels"]))),
        remove_denied_after=given["remove_denied_after"],
    )
    webhooks = ServingOptions(
        here.bind(given["webhook_host"] or everywhere),
        given["webhook_port"],
        _url(given["webhook_url"]),
        service=in_cluster and not given["webhook_url"],
        certificates=here.path(given["webhook_cert_dir"]) if given["webhook_cert_dir"] else None,
    )
    host, port = _address(given["listen"]) if given["listen"] else (given["health_host"] or everywhere, given["health_port"])
    return Settings(
        find_cluster(given["kubeconfig"], given["context"], here),
        options,
        given["install"],
        given["install_only"],
        webhooks if given["webhook"] else None,
        (here.bind(host), port),
        given["leader_elect"],
        given["controllers"],
    )


def _flat(given: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    return tuple(value for values in given for value in values)


def _driver_options(given: dict[str, Any]) -> dict[str, DriverOptions]:
    from muster.registration.drivers import DriverOptionError, driver_options

    own = [f"csr.auto-approved-csr-users={user}" for user in _flat(given["csr_users"])]
    own += [f"awsirsa.hub-cluster-arn={arn}" for arn in given["aws_arn"]]
    own += [f"awsirsa.auto-approved-arn-patterns={pattern}" for pattern in given["aws_patterns"]]
    own += [f"awsirsa.aws-resource-tags={tag}" for tag in given["aws_tags"]]
    own += [f"grpc.auto-approved-grpc-users={user}" for user in _flat(given["grpc_users"])]
    try:
        return driver_options([*own, *given["driver_options"]])
    except DriverOptionError as error:
        raise click.ClickException(str(error)) from None


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


def _url(text: str) -> str:
    if text and not text.startswith("https://"):
        raise click.BadParameter(f"{text!r}: webhooks are called at https:// only", param_hint="--webhook-url")
    return text


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint="--listen")
    return host.strip("[]") or ANY_ADDRESS, int(port)


def run_hub(settings: Settings) -> None:
    run_until_stopped(serve(settings))


def _explain(error: Exception) -> click.ClickException | None:
    from muster.registration.drivers import BrokenDriver, UnknownDriver
    from muster.registration.drivers.seam import DriverError
    from muster.registration.installing import InstallError
    from muster.runtime.parts import PartFailed

    match error:
        case UnknownDriver() | BrokenDriver():
            return click.BadParameter(str(error), param_hint="--enabled-registration-drivers")
        case DriverError() | InstallError() | PartFailed():
            return click.ClickException(str(error))
    return cluster_problem(error, "the hub cluster", "--webhook-port or --health-port")


async def serve(settings: Settings, here: Surroundings = PROCESS) -> None:
    with explained(_explain):
        await _serve(settings, here)


async def _serve(settings: Settings, here: Surroundings) -> None:
    import asyncio

    from muster.registration.hub.install import install, install_namespaces
    from muster.registration.hub.manager import Hub
    from muster.registration.hub.serving import Webhooks
    from muster.runtime.health import HealthServer
    from muster.runtime.metrics import Metrics

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client = settings.cluster.connect("muster-hub", metrics)
        stack.push_async_callback(client.close)
        hub = Hub(client, settings.options, metrics=metrics) if settings.controllers else None
        webhooks = Webhooks(client, settings.options, settings.webhooks) if settings.webhooks else None
        if settings.install:
            await install_namespaces(client, settings.options.namespace)
        if webhooks is not None:
            stack.push_async_callback(webhooks.stop)
            await (webhooks.prepare() if settings.install_only else webhooks.start())
        if settings.install:
            await install(client, namespace=settings.options.namespace, webhooks=webhooks.endpoint if webhooks else None)
        if settings.install_only:
            here.say(f"installed on {client.server}")
            return
        health = HealthServer(metrics)
        lease = HUB_LOCK if settings.elect else ""
        leading = Leading(client, hub, here, lease, settings.options.namespace) if hub is not None else None
        if leading is not None:
            health.ready("caches", leading.problem)
        await health.start(*settings.health)
        stack.push_async_callback(health.stop)
        async with asyncio.TaskGroup() as tasks:
            if webhooks is not None:
                tasks.create_task(webhooks.run())
            if hub is not None and leading is not None:
                tasks.create_task(_announce(hub, health.port, client.server, here.say))
                tasks.create_task(leading.run())
            else:
                here.say(f"ready: webhooks of {client.server}; health on port {health.port}")


async def _announce(hub: Hub, health_port: int, server: str, say: Callable[[str], None]) -> None:
    await hub.synced()
    say(f"ready: hub of {server}; health on port {health_port}")
