"""`muster agent`: runs a managed cluster's registration agent.

With `--install` it first creates its namespace, service account and RBAC rules on its cluster, which takes an administrator's
permissions; `--install-only` does nothing else. Upstream's flag names are accepted beside ours.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.driver_flags import driver_flags, driver_settings
from muster.cli.examples import examples
from muster.cli.log_options import log_options
from muster.cli.process import (
    ANY_ADDRESS,
    LOOPBACK,
    PROCESS,
    FoundCluster,
    ProcessEnv,
    cluster_problem,
    explained,
    find_cluster,
    run_until_stopped,
)
from muster.cli.values import Duration, FilePath, Gates, Names, Pairs
from muster.machinery.confinement import read
from muster.machinery.oserrors import explain_file_error
from muster.registration.drivers.flags import ADDON_DRIVERS, AGENT_FLAGS, DEFAULT
from muster.registration.names import ADDON_MANAGEMENT, AGENT_GATES, AGENT_UNSUPPORTED_GATES

if TYPE_CHECKING:
    from muster.cli.work_sidecar import WorkSidecar
    from muster.registration.agent.options import AgentOptions
    from muster.registration.drivers.interfaces import Driver
    from muster.registration.drivers.profile import DriverOptions
    from muster.runtime.client import ClientConfig

LEASE = "registration-agent-lock"
EXPIRATION = "client-cert-expiration-seconds"


@click.command(
    "agent",
    short_help="Run a managed cluster's registration agent.",
    epilog=examples(
        "muster agent --install --cluster-name cluster1 --bootstrap-kubeconfig bootstrap.kubeconfig",
        "muster agent --cluster-name cluster1 --hub-kubeconfig-dir /spoke/hub-kubeconfig --with-work",
    ),
)
@click.option(
    "--cluster-name",
    "--spoke-cluster-name",
    default="",
    help="Name of this cluster on the hub.  [default: the name it registered with, else a new UUID]",
)
@click.option(
    "--agent-id", "agent_name", default="", help="Identifier of this agent.  [default: the one it registered with, else random]"
)
@click.option(
    "--namespace", help="Namespace of the agent and its Secrets.  [default: the pod's, else open-cluster-management-agent]"
)
@click.option(
    "--kubeconfig",
    type=FilePath(dir_okay=False),
    help="Path to the kubeconfig file of the cluster the agent runs on.  [default: in-cluster, or kubectl's]",
)
@click.option("--context", default="", help="Name of the kubeconfig context to use.  [default: the current one]")
@click.option(
    "--spoke-kubeconfig",
    type=FilePath(dir_okay=False),
    help="Path to the kubeconfig file of the managed cluster, if the agent runs on another one (hosted mode).",
)
@click.option("--install", is_flag=True, help="Create the agent's namespace, service account and RBAC rules before starting.")
@click.option("--install-only", is_flag=True, help="Create the agent's namespace, service account and RBAC rules, then exit.")
@click.option(
    "--bootstrap-kubeconfig",
    "--bootstrap-kubeconfigs",
    "bootstrap_kubeconfigs",
    type=Names(),
    multiple=True,
    help="Bootstrap kubeconfig files to register with, in order of preference. Repeatable.",
)
@click.option(
    "--bootstrap-kubeconfig-secret",
    "bootstrap_secrets",
    type=Names(),
    multiple=True,
    help="Secrets with bootstrap kubeconfigs to register with. Repeatable.  [default: bootstrap-hub-kubeconfig]",
)
@click.option(
    "--hub-kubeconfig-dir",
    type=FilePath(file_okay=False),
    help="Directory to which the hub kubeconfig is written for other agents.",
)
@click.option(
    "--hub-kubeconfig-secret",
    "hub_secret",
    default="hub-kubeconfig-secret",
    show_default=True,
    help="Secret that stores the agent's hub kubeconfig and credentials.",
)
@click.option(
    "--registration-auth",
    "driver",
    default=DEFAULT,
    show_default=True,
    help="Registration driver by which the agent authenticates to the hub.",
)
@click.option(
    f"--{EXPIRATION}",
    "expiration",
    type=int,
    help="Requested lifetime of client certificates in seconds.  [default: decided by the hub]",
)
@driver_flags(AGENT_FLAGS)
@click.option(
    "--spoke-external-server-urls",
    "urls",
    type=Names(),
    multiple=True,
    help="URLs at which the hub can reach this cluster's API server.",
)
@click.option(
    "--cluster-healthcheck-period",
    "period",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Interval between health checks of the managed cluster's API server.",
)
@click.option(
    "--max-custom-cluster-claims",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Maximum number of custom cluster claims reported to the hub.",
)
@click.option(
    "--reserved-cluster-claim-suffixes",
    "suffixes",
    type=Names(),
    multiple=True,
    help="Suffixes of cluster claims that are reported to the hub regardless of that maximum.",
)
@click.option(
    "--cluster-annotations",
    "annotations",
    type=Pairs(),
    multiple=True,
    help="Annotations for the ManagedCluster when the agent creates it.",
)
@click.option(
    "--addon-kubeclient-registration-auth",
    "addon_driver",
    type=click.Choice(ADDON_DRIVERS),
    default=ADDON_DRIVERS[0],
    show_default=True,
    help="Authentication method of the add-ons' agents: client certificates or tokens.",
)
@click.option(
    "--addon-token-expiration-seconds",
    "addon_token_seconds",
    type=click.IntRange(0),
    default=0,
    help="Requested lifetime of the add-ons' tokens in seconds, at least 600.  [default: a year]",
)
@click.option(
    "--hub-connection-timeout-seconds",
    "timeout",
    type=click.FloatRange(1),
    default=600,
    show_default=True,
    help="Seconds without a connection after which the agent switches to the next of several hubs.",
)
@click.option(
    "--feature-gates",
    "gates",
    type=Gates(AGENT_GATES, AGENT_UNSUPPORTED_GATES),
    multiple=True,
    help=f"Comma-separated Gate=true|false pairs. Known gates: {', '.join(AGENT_GATES)}.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    " /--disable-leader-election",
    default=False,
    show_default=True,
    help="Use leader election, so that only one of several replicas is active.",
)
@click.option("--with-work", is_flag=True, help="Run a work agent in the same process; requires --hub-kubeconfig-dir.")
@click.option(
    "--appliedmanifestwork-eviction-grace-period",
    "eviction_grace",
    help="Eviction grace period of the work agent (see muster work-agent --help).",
)
@click.option("--status-sync-interval", help="Status sync interval of the work agent (see muster work-agent --help).")
@click.option("--work-feature-gates", multiple=True, help="Feature gates of the work agent (see muster work-agent --help).")
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
    """Run the registration agent, which registers this cluster with a hub, renews its credentials and reports its status."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_agent(settings(options))


@dataclass(frozen=True)
class Settings:
    management: FoundCluster
    spoke: FoundCluster | None
    options: AgentOptions
    install: bool
    install_only: bool
    health: tuple[str, int]
    elect: bool
    work: WorkSidecar | None = None


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    from muster.registration.agent.options import AgentOptions
    from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET

    gates = dict(_flat(given["gates"]))
    urls = _urls(_flat(given["urls"]))
    cluster_name, driver_options = _cluster_name(given["cluster_name"]), _driver_options(given)
    files = _files(given, driver_options)
    management = find_cluster(given["kubeconfig"], given["context"], here)
    spoke = find_cluster(given["spoke_kubeconfig"], "", here) if given["spoke_kubeconfig"] else None
    options = AgentOptions(
        cluster_name=cluster_name,
        agent_name=given["agent_name"],
        namespace=given["namespace"] or (management.config.namespace if management.in_pod else "") or AGENT_NAMESPACE,
        hub_secret=given["hub_secret"],
        bootstrap_secrets=_flat(given["bootstrap_secrets"]) or (BOOTSTRAP_SECRET,),
        bootstrap_kubeconfigs=tuple(here.path(path) for path in files.bootstrap),
        hub_kubeconfig_dir=here.path(files.directory) if files.directory else None,
        driver=given["driver"],
        driver_options=driver_options,
        external_server_urls=urls,
        external_ca=_authority((spoke or management).config) if urls else b"",
        cluster_annotations=_annotations(dict(_flat(given["annotations"])), here),
        health_check_seconds=_period(given["period"]),
        hub_connection_timeout=given["timeout"],
        cluster_claims=gates.get("ClusterClaim", True),
        cluster_properties=gates.get("ClusterProperty", False),
        max_custom_claims=given["max_custom_cluster_claims"],
        reserved_claim_suffixes=_flat(given["suffixes"]),
        addons=gates.get(ADDON_MANAGEMENT, True),
        addon_driver=given["addon_driver"],
        addon_token_seconds=given["addon_token_seconds"],
    )
    _check_hubs(options, bool(gates.get("MultipleHubs")))
    install = given["install"] or given["install_only"]
    host = here.bind(given["health_host"] or (ANY_ADDRESS if management.in_pod else LOOPBACK))
    health = (host, given["health_port"])
    work = _work(given, options, files.directory)
    return Settings(management, spoke, options, install, given["install_only"], health, given["leader_elect"], work)


def _check_hubs(options: AgentOptions, several_wanted: bool) -> None:
    """Check that there is one bootstrap configuration, or several if the agent is to choose and its driver supports that."""
    from muster.registration import drivers

    several = len(options.bootstrap_kubeconfigs or options.bootstrap_secrets) > 1
    if several_wanted and not several:
        raise click.UsageError("--feature-gates MultipleHubs=true: give at least two --bootstrap-kubeconfigs")
    if several and not drivers.find(options.driver).several_hubs:
        text = f"an agent that registers by {options.driver} has an identity for one hub"
        raise click.UsageError(f"--bootstrap-kubeconfigs: {text}; run another agent, in another --namespace, for the other hub")


@dataclass(frozen=True)
class Files:
    """File names as on the command line."""

    bootstrap: tuple[str, ...]
    directory: str
    """Where other processes have the hub's configuration; empty if not set."""


def _files(given: dict[str, Any], options: DriverOptions) -> Files:
    """The driver's own flags override the flags that all drivers share."""
    from pathlib import PurePosixPath

    from muster.registration import drivers

    driver = drivers.find(given["driver"])
    agent_files, directory = driver.agent_files(options), given["hub_kubeconfig_dir"] or ""
    if agent_files.hub:
        path = PurePosixPath(agent_files.hub)
        if path.name != driver.endpoints.key:
            raise click.UsageError(f"{agent_files.hub}: the hub configuration is kept in a file {driver.endpoints.key}")
        if directory and PurePosixPath(directory) != path.parent:
            raise click.UsageError(f"{agent_files.hub} is not in --hub-kubeconfig-dir {directory}")
        directory = str(path.parent)
    return Files(agent_files.bootstrap or _flat(given["bootstrap_kubeconfigs"]), directory)


def _work(given: dict[str, Any], options: AgentOptions, directory: str) -> WorkSidecar | None:
    """The work agent to run in this process, with the settings that it shares with this one."""
    from muster.cli.work_sidecar import work_sidecar
    from muster.registration.drivers import endpoints_of

    if not given["with_work"]:
        return None
    if not directory:
        raise click.UsageError("--with-work: requires --hub-kubeconfig-dir DIR, where the work agent finds the hub's kubeconfig")
    work_options = {
        "--namespace": options.namespace,
        "--agent-id": given["agent_name"],
        "--kubeconfig": given["kubeconfig"],
        "--context": given["context"],
        "--spoke-kubeconfig": given["spoke_kubeconfig"],
        "--appliedmanifestwork-eviction-grace-period": given["eviction_grace"],
        "--status-sync-interval": given["status_sync_interval"],
        "--feature-gates": ",".join(given["work_feature_gates"]),
    }
    arguments = [f"{flag}={value}" for flag, value in work_options.items() if value]
    return work_sidecar(directory, endpoints_of(options.driver), arguments)


def _flat(given: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    return tuple(value for values in given for value in values)


def _cluster_name(name: str) -> str:
    from muster.kube.names import dns1123_label

    if name and (problems := dns1123_label(name)):
        raise click.BadParameter(f"{name!r} cannot name a cluster: {problems[0]}", param_hint="--cluster-name")
    return name


def _driver_options(given: dict[str, Any]) -> DriverOptions:
    """The options of the selected driver, validated by it."""
    from muster.registration import drivers

    own = [] if given["expiration"] is None else [f"{given['driver']}.{EXPIRATION}={given['expiration']}"]
    settings = driver_settings(AGENT_FLAGS, given, *own)
    try:
        driver = drivers.find(given["driver"])
        options = drivers.options_of(driver, settings)
        _try_driver(driver, options)
    except drivers.DriverError as error:
        raise click.ClickException(str(error)) from None
    return options


def _try_driver(driver: Driver, options: DriverOptions) -> None:
    import random

    from muster.machinery.clock import SYSTEM
    from muster.machinery.metrics import Metrics
    from muster.registration.drivers.interfaces import SpokeContext
    from muster.registration.names import AgentIdentity

    driver.spoke(SpokeContext(AgentIdentity("cluster", "agent"), SYSTEM, random.random, Metrics(), options))


def _urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    from urllib.parse import urlsplit

    for url in urls:
        if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
            raise click.BadParameter(f"{url!r} is not an https URL", param_hint="--spoke-external-server-urls")
    return urls


def _authority(config: ClientConfig) -> bytes:
    try:
        return read(config.ca) if isinstance(config.ca, Path) else config.ca or b""
    except OSError as error:
        raise click.ClickException(f"certificate authority {config.ca!s}: {explain_file_error(error)}") from None


def _annotations(annotations: dict[str, str], here: ProcessEnv) -> dict[str, str]:
    from muster.registration.names import AGENT_ANNOTATIONS

    for key in annotations:
        if not key.startswith(AGENT_ANNOTATIONS):
            here.warn(f"warning: --cluster-annotations: {key} does not begin with {AGENT_ANNOTATIONS}; it is passed over")
    return annotations


def _period(seconds: float) -> float:
    if seconds <= 0:
        raise click.BadParameter("must be greater than zero", param_hint="--cluster-healthcheck-period")
    return seconds


def run_agent(settings: Settings) -> None:
    run_until_stopped(serve(settings))


def _explain(error: Exception) -> click.ClickException | None:
    from muster.registration.drivers.interfaces import DriverError
    from muster.runtime.install import InstallError

    if isinstance(error, DriverError | InstallError):
        return click.ClickException(str(error))
    return cluster_problem(error, "the cluster", "--health-port")


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(_explain):
        await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.machinery.metrics import Metrics
    from muster.registration.agent.agent import Agent
    from muster.runtime.controller import LeaderElection, Manager, RunnableFunc, leader_identity
    from muster.runtime.process import serve as serve_manager

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        management = settings.management.connect_in(stack, "muster-registration-agent", metrics)
        spoke = settings.spoke.connect_in(stack, "muster-registration-agent", metrics) if settings.spoke else management
        if settings.install:
            from muster.registration.agent.install import install

            await install(management, settings.options)
        if settings.install_only:
            here.info(f"installed on {management.server}")
            return
        agent = Agent(spoke, settings.options, management=management, metrics=metrics)
        manager = Manager()
        manager.add("the agent", agent)
        manager.add_live_check("hub-kube-config", agent.unhealthy)
        manager.add_ready_check("registration", agent.unready, once_elected=True)
        if settings.work is not None:
            from muster.cli.work_sidecar import run_work_sidecar

            # It waits for the files of the registration agent, which runs only on the leader.
            manager.add(
                "the work agent", RunnableFunc(partial(run_work_sidecar, settings.work, here, metrics)), needs_leader_election=False
            )
        election = LeaderElection(management, LEASE, settings.options.namespace, leader_identity(here.environ))
        await serve_manager(
            manager,
            metrics,
            settings.health,
            lambda port: here.info(f"started: agent on {management.server}; health on port {port}"),
            election=election if settings.elect else None,
        )
