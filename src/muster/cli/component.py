"""The shared part of a hub's components: webhooks that every replica serves, and controllers that only the leader runs.

A `HubComponent` has what is specific to a component; the other flags are the same for all. The order is: install, listen for
webhooks, write the webhook configurations, start the controllers; `--install-only` ends before the last step, and `--no-webhook`
and `--no-controllers` leave one half out.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from muster.cli.log_options import log_options
from muster.cli.process import ANY_ADDRESS, LOOPBACK, FoundCluster, ProcessEnv, cluster_problem, find_cluster, in_pod
from muster.cli.values import FilePath
from muster.machinery.oserrors import explain_listen_error

if TYPE_CHECKING:
    from muster.machinery.metrics import Metrics
    from muster.runtime.client import KubeClient
    from muster.runtime.controller import Manager
    from muster.runtime.webhook import ServingOptions, WebhookServing

W = TypeVar("W", bound="WebhookServing")
Command = Callable[..., Any]


def cluster_options(command: Command) -> Command:
    """The first flags of every component: the cluster, and whether to install."""
    return _with(
        command,
        click.option(
            "--kubeconfig",
            type=FilePath(dir_okay=False),
            help="Path to the kubeconfig file of the hub cluster.  [default: in-cluster, or kubectl's]",
        ),
        click.option("--context", default="", help="Name of the kubeconfig context to use.  [default: the current one]"),
        click.option(
            "--namespace", default="open-cluster-management-hub", show_default=True, help="Namespace of the hub components."
        ),
        click.option(
            "--install/--no-install",
            default=True,
            show_default=True,
            help="Apply CRDs, RBAC rules and webhook configurations before starting.",
        ),
        click.option("--install-only", is_flag=True, help="Apply CRDs, RBAC rules and webhook configurations, then exit."),
    )


def process_options(command: Command) -> Command:
    """The last flags of a component with webhooks: webhooks, controllers, health and leader election."""
    webhooks = (
        click.option("--webhook/--no-webhook", default=True, show_default=True, help="Serve the admission webhooks."),
        click.option("--webhook-host", help="Address to serve webhooks on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]"),
        click.option(
            "--webhook-port",
            type=click.IntRange(0, 65535),
            default=9443,
            show_default=True,
            help="Port to serve webhooks on; 0 picks a free one.",
        ),
        click.option(
            "--webhook-url",
            default="",
            help="URL at which the API server calls the webhooks.  [default: their own address; in a cluster a Service]",
        ),
        click.option(
            "--webhook-cert-dir",
            type=FilePath(file_okay=False),
            help="Directory with tls.crt and tls.key for the webhooks.  [default: a certificate of their own, in a Secret]",
        ),
        click.option(
            "--webhook-client-ca-file",
            type=FilePath(dir_okay=False),
            help="CA certificate that verifies the API server when it calls webhooks.  [default: the cluster's published CA]",
        ),
        click.option(
            "--webhook-client-name",
            "webhook_client_names",
            multiple=True,
            help="Name required in the API server's client certificate. Repeatable.  [default: any]",
        ),
        click.option(
            "--controllers/--no-controllers", default=True, show_default=True, help="Run the controllers as well as the webhooks."
        ),
    )
    return _with(controller_options(command), *webhooks)


def controller_options(command: Command) -> Command:
    """The last flags of every component: health and leader election."""
    leadership = (
        click.option(
            "--leader-elect/--no-leader-elect",
            " /--disable-leader-election",
            default=True,
            show_default=True,
            help="Use leader election, so that only one of several replicas is active.",
        ),
        log_options,
    )
    return health_options(_with(command, *leadership))


def health_options(command: Command) -> Command:
    """Flags of the address for health checks and metrics."""
    return _with(
        command,
        click.option(
            "--health-host", help="Address to serve health checks and metrics on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]"
        ),
        click.option(
            "--health-port",
            type=click.IntRange(0, 65535),
            default=8081,
            show_default=True,
            help="Port to serve health checks and metrics on; 0 picks a free one.",
        ),
        click.option(
            "--listen",
            metavar="HOST:PORT",
            help="Address and port to serve health checks and metrics on; replaces --health-host and --health-port.",
        ),
    )


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True)
class CommonFlags:
    """The values of the flags that all components share."""

    cluster: FoundCluster
    namespace: str
    install: bool
    install_only: bool
    webhooks: ServingOptions | None
    health: tuple[str, int]
    elect: bool
    controllers: bool = True


def common_flags(given: dict[str, Any], here: ProcessEnv) -> CommonFlags:
    """Raises click's errors for invalid flags."""
    _check(given)
    everywhere = ANY_ADDRESS if in_pod(given["kubeconfig"], given["context"], here) else LOOPBACK
    host, port = host_port(given["listen"]) if given["listen"] else (given["health_host"] or everywhere, given["health_port"])
    return CommonFlags(
        find_cluster(given["kubeconfig"], given["context"], here),
        given["namespace"],
        given["install"],
        given["install_only"],
        _webhooks(given, here, everywhere) if given.get("webhook") else None,
        (here.bind(host), port),
        given["leader_elect"],
        given.get("controllers", True),
    )


def _webhooks(given: dict[str, Any], here: ProcessEnv, everywhere: str) -> ServingOptions:
    from muster.runtime.webhook import ServingOptions

    return ServingOptions(
        here.bind(given["webhook_host"] or everywhere),
        given["webhook_port"],
        _url(given["webhook_url"]),
        service=everywhere == ANY_ADDRESS and not given["webhook_url"],
        certificates=here.path(given["webhook_cert_dir"]) if given["webhook_cert_dir"] else None,
        client_ca=here.path(given["webhook_client_ca_file"]) if given["webhook_client_ca_file"] else None,
        client_names=given["webhook_client_names"],
    )


def _check(given: dict[str, Any]) -> None:
    from muster.kube.names import dns1123_label

    if problems := dns1123_label(given["namespace"]):
        raise click.BadParameter(f"{given['namespace']!r}: {problems[0]}", param_hint="--namespace")
    if given["install_only"] and not given["install"]:
        raise click.UsageError("--install-only and --no-install contradict each other")
    if "webhook" in given:
        _check_webhooks(given)


def _check_webhooks(given: dict[str, Any]) -> None:
    if given["install_only"] and given["webhook"] and not (given["webhook_port"] or given["webhook_url"]):
        raise click.UsageError("--install-only must know where webhooks will be: give --webhook-port or --webhook-url")
    if given["webhook_cert_dir"] and given["install"]:
        raise click.UsageError("--webhook-cert-dir has no CA bundle for the webhooks: install by other means and give --no-install")
    if given["webhook_client_names"] and not given["webhook_client_ca_file"]:
        raise click.UsageError("--webhook-client-name needs the --webhook-client-ca-file of that certificate")
    if not (given["controllers"] or given["webhook"]):
        raise click.UsageError("--no-controllers and --no-webhook leave nothing to run")


def _url(text: str) -> str:
    if text and not text.startswith("https://"):
        raise click.BadParameter(f"{text!r}: webhooks are called at https:// only", param_hint="--webhook-url")
    return text


def host_port(text: str, flag: str = "--listen") -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint=flag)
    return host.strip("[]") or ANY_ADDRESS, int(port)


def component_problem(ports: str = "--health-port") -> Callable[[Exception], click.ClickException | None]:
    """A function that explains errors of a component which listens on `ports` (flags)."""

    def explain(error: Exception) -> click.ClickException | None:
        from muster.machinery.tasks import RunnableEnded
        from muster.runtime.install import InstallError

        if isinstance(error, InstallError | RunnableEnded):
            return click.ClickException(str(error))
        return cluster_problem(error, "the hub cluster", ports)

    return explain


@contextmanager
def _listening(where: tuple[str, int]) -> Iterator[None]:
    """Components of a hub share a default port, because each is alone in its pod; on one machine they need two."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES) or error.filename is not None:
            raise
        host, port = where
        message = f"cannot listen for webhooks on {host}:{port}: {explain_listen_error(error)}"
        remedy = "choose another --webhook-port (0 picks a free one; muster hub and muster work-hub have the same default)"
        raise click.ClickException(f"{message}; {remedy}, or another --webhook-host") from None


@dataclass(frozen=True)
class HubComponent(Generic[W]):
    """What is specific to a component. `name` is in its log lines and messages, `lease` is the Lease of its leader."""

    name: str
    agent: str
    lease: str
    manager: Callable[[KubeClient, Metrics], Manager]
    install_namespaces: Callable[[KubeClient], Awaitable[None]]
    install: Callable[[KubeClient, W | None], Awaitable[None]]
    webhooks: Callable[[KubeClient, ServingOptions], W] | None = None
    """None if it has no webhooks and no flags for them."""


async def serve_component(flags: CommonFlags, component: HubComponent[W], here: ProcessEnv) -> None:
    from muster.machinery.metrics import Metrics
    from muster.runtime.controller import LeaderElection, Manager, leader_identity
    from muster.runtime.process import serve

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client = flags.cluster.connect_in(stack, component.agent, metrics)
        manager = component.manager(client, metrics) if flags.controllers else Manager()
        webhooks = component.webhooks(client, flags.webhooks) if component.webhooks and flags.webhooks else None
        if flags.install:
            await component.install_namespaces(client)
        if webhooks is not None:
            webhooks.measure(metrics)
            stack.push_async_callback(webhooks.stop)
            with _listening(webhooks.host_port):
                await (webhooks.prepare() if flags.install_only else webhooks.start())
        if flags.install:
            await component.install(client, webhooks)
        if flags.install_only:
            here.info(f"installed on {client.server}")
            return
        if webhooks is not None:
            manager.add("webhooks", webhooks, needs_leader_election=False)
            manager.add_ready_check("webhooks", webhooks.problem)
        name = component.name if flags.controllers else "webhooks"
        await serve(
            manager,
            metrics,
            flags.health,
            lambda port: here.info(f"ready: {name} of {client.server}; health on port {port}"),
            once_synced=True,
            election=LeaderElection(client, component.lease, flags.namespace, leader_identity(here.environ))
            if flags.elect
            else None,
        )
