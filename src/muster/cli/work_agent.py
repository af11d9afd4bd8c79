"""`muster work-agent`: runs a managed cluster's work agent.

It uses the hub configuration that the registration agent maintains; renewed certificates are reloaded. With `--install` it first
creates its namespace, service account and RBAC rules on its cluster, which takes an administrator's permissions; `--install-only`
does nothing else. Upstream's flag names are accepted beside ours.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.examples import examples
from muster.cli.executor_options import review_options
from muster.cli.hub_address import find_hub, until_moved
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
from muster.cli.values import Duration, FilePath, Gates
from muster.machinery.confinement import read
from muster.work.names import AGENT_GATES, ALL_REVIEWS, ALL_VERBS, PER_MANIFEST, RAW_FEEDBACK

if TYPE_CHECKING:
    from muster.machinery.metrics import Metrics
    from muster.registration.drivers.endpoints import EndpointFormat, HubEndpoint
    from muster.work.agent.options import WorkAgentOptions

LEASE = "work-agent-lock"
AT_ONCE = 32
"""Concurrent requests to one server: more do not make an API server faster, and each takes a connection's memory."""


@click.command(
    "work-agent",
    short_help="Run a managed cluster's work agent.",
    epilog=examples(
        "muster work-agent --install --hub-kubeconfig /spoke/hub-kubeconfig/kubeconfig",
        "muster work-agent --workload-source-driver grpc --workload-source-config /spoke/hub-kubeconfig/config.yaml",
    ),
)
@click.option(
    "--spoke-cluster-name",
    "--cluster-name",
    "cluster_name",
    default="",
    help="Name of this cluster on the hub.  [default: the name it registered with]",
)
@click.option(
    "--hub-kubeconfig",
    "--workload-source-config",
    "hub_kubeconfig",
    type=FilePath(dir_okay=False),
    help="Path to the hub kubeconfig that the registration agent writes; with grpc its config.yaml.",
)
@click.option(
    "--workload-source-driver",
    "driver",
    default="kube",
    show_default=True,
    help="Source of the works: `kube` is the hub's API server, `grpc` its gRPC server.",
)
@click.option(
    "--cloudevents-client-id",
    "client_id",
    default="",
    help="Client ID of the agent on the gRPC server.  [default: <cluster name>-work-agent]",
)
@click.option(
    "--agent-id", default="", help="Identifier of this agent in its AppliedManifestWorks.  [default: a hash of the hub's URL]"
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
@click.option("--namespace", help="Namespace of the agent.  [default: the pod's, else open-cluster-management-agent]")
@click.option("--install", is_flag=True, help="Create the agent's namespace, service account and RBAC rules before starting.")
@click.option("--install-only", is_flag=True, help="Create the agent's namespace, service account and RBAC rules, then exit.")
@click.option(
    "--appliedmanifestwork-eviction-grace-period",
    "eviction_grace",
    type=Duration(),
    default="1h",
    show_default=True,
    help="Time after which applied objects are deleted if the hub no longer has their work; 876000h means never.",
)
@click.option(
    "--status-sync-interval",
    "poll_seconds",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Interval between reads of objects that cannot be watched.",
)
@click.option(
    "--workload-agent-workers",
    "--workers",
    "workers",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Number of works reconciled at the same time.",
)
@click.option(
    "--max-json-raw-length",
    type=click.IntRange(1, 1024),
    default=1024,
    show_default=True,
    help="Maximum length of a JsonRaw feedback value, in bytes.",
)
@click.option(
    "--max-feedback-watch",
    type=int,
    default=50,
    hidden=True,
    help="Maximum number of feedback watches; accepted for compatibility and not used.",
)
@click.option(
    "--executor-mode",
    type=click.Choice(["strict", "per-manifest"]),
    default="strict",
    show_default=True,
    help="Effect of one denied manifest: `strict` withholds the whole work, `per-manifest` only that manifest.",
)
@review_options
@click.option("--kube-api-qps", type=float, hidden=True, help="Request rate limit; accepted for compatibility and not used.")
@click.option("--kube-api-burst", type=int, hidden=True, help="Request burst limit; accepted for compatibility and not used.")
@click.option("--hub-kube-api-qps", type=float, hidden=True, help="Request rate limit; accepted for compatibility and not used.")
@click.option("--hub-kube-api-burst", type=int, hidden=True, help="Request burst limit; accepted for compatibility and not used.")
@click.option(
    "--feature-gates",
    "gates",
    type=Gates(AGENT_GATES),
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
    """Run the work agent, which applies this cluster's ManifestWorks, reverts drift and reports their status to the hub."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    management: FoundCluster
    spoke: FoundCluster | None
    hub: HubEndpoint | None
    """None only with `--install-only`."""
    hub_file: Path | None
    endpoints: EndpointFormat
    options: WorkAgentOptions
    client_id: str
    namespace: str
    install: bool
    install_only: bool
    health: tuple[str, int]
    elect: bool


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    from muster.registration.names import AGENT_NAMESPACE
    from muster.work.agent.executor import ExecutorOptions
    from muster.work.agent.options import WorkAgentOptions

    endpoints = _endpoints(given["driver"])
    management = find_cluster(given["kubeconfig"], given["context"], here)
    spoke = find_cluster(given["spoke_kubeconfig"], "", here) if given["spoke_kubeconfig"] else None
    file = here.path(given["hub_kubeconfig"]) if given["hub_kubeconfig"] else None
    if file is None and not given["install_only"]:
        flag = "--hub-kubeconfig" if endpoints.key == "kubeconfig" else "--workload-source-config"
        raise click.UsageError(f"give the hub's {endpoints.key}: {flag} FILE")
    hub = find_hub(file, endpoints) if file else None
    gates = dict(gate for gates in given["gates"] for gate in gates)
    options = WorkAgentOptions(
        cluster_name=_cluster_name(given, file),
        agent_id=given["agent_id"],
        hub_url=hub.url if hub else "",
        eviction_grace=given["eviction_grace"],
        poll_seconds=_positive(given["poll_seconds"]),
        workers=given["workers"],
        raw_json=gates.get(RAW_FEEDBACK, False),
        max_json_raw_length=given["max_json_raw_length"],
        executor=ExecutorOptions(
            strict=given["executor_mode"] == "strict" and not gates.get(PER_MANIFEST),
            review_all=given["executor_reviews"] == "always" or gates.get(ALL_REVIEWS, False),
            every_verb=given["executor_verbs"] == "all" or gates.get(ALL_VERBS, False),
        ),
    )
    host = here.bind(given["health_host"] or (ANY_ADDRESS if management.in_pod else LOOPBACK))
    return Settings(
        management,
        spoke,
        hub,
        file,
        endpoints,
        options,
        given["client_id"] or f"{options.cluster_name}-work-agent",
        given["namespace"] or (management.config.namespace if management.in_pod else "") or AGENT_NAMESPACE,
        given["install"] or given["install_only"],
        given["install_only"],
        (host, given["health_port"]),
        given["leader_elect"],
    )


def _endpoints(source: str) -> EndpointFormat:
    from muster.registration.drivers import endpoints_named

    found = endpoints_named(source)
    if found is None:
        raise click.BadParameter(f"{source!r} is not supported; there are kube and grpc", param_hint="--workload-source-driver")
    return found


def _cluster_name(given: dict[str, Any], file: Path | None) -> str:
    """The given name, or the one that the registration agent has stored beside the kubeconfig."""
    from muster.kube.names import dns1123_label

    name: str = given["cluster_name"]
    name_file = file.parent / "cluster-name" if file else None
    if not name and name_file is not None and name_file.is_file():
        name = read(name_file).decode().strip()
    if given["install_only"]:
        return name
    if not name:
        raise click.UsageError("give the cluster's name on the hub: --spoke-cluster-name NAME")
    if problems := dns1123_label(name):
        raise click.BadParameter(f"{name!r} cannot name a cluster: {problems[0]}", param_hint="--spoke-cluster-name")
    return name


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise click.BadParameter("must be greater than zero", param_hint="--status-sync-interval")
    return seconds


def _explain(error: Exception) -> click.ClickException | None:
    from muster.registration.drivers.endpoints import EndpointError
    from muster.runtime.install import InstallError

    if isinstance(error, EndpointError | InstallError):
        return click.ClickException(str(error))
    return cluster_problem(error, "the cluster", "--health-port")


async def serve(settings: Settings, here: ProcessEnv = PROCESS, metrics: Metrics | None = None) -> None:
    """`metrics` are those of the process, if it is not the work agent's own."""
    with explained(_explain):
        await _serve(settings, here, metrics)


async def _serve(settings: Settings, here: ProcessEnv, metrics: Metrics | None) -> None:
    from muster.machinery.metrics import Metrics
    from muster.registration.drivers.endpoints import ClientSettings
    from muster.runtime.controller import LeaderElection, Manager, RunnableFunc, leader_identity
    from muster.runtime.process import serve as serve_manager
    from muster.work.agent.agent import WorkAgent
    from muster.work.names import AGENT

    metrics = metrics or Metrics()
    async with AsyncExitStack() as stack:
        management = settings.management.connect_in(stack, AGENT, metrics, AT_ONCE)
        spoke = settings.spoke.connect_in(stack, AGENT, metrics, AT_ONCE) if settings.spoke else management
        if settings.install:
            from muster.work.agent.install import install

            await install(spoke, settings.namespace)
        if settings.install_only or settings.hub is None:
            here.info(f"installed on {spoke.server}")
            return
        cluster = settings.options.cluster_name
        hub = settings.hub.connect(ClientSettings(AGENT, metrics, at_once=AT_ONCE, cluster=cluster, source=settings.client_id))
        stack.push_async_callback(hub.close)
        agent = WorkAgent(hub, spoke, settings.options, metrics=metrics)
        manager = Manager()
        manager.add("the work agent", agent)
        manager.add("the hub's address", RunnableFunc(partial(_until_moved, settings)), needs_leader_election=False)
        manager.add_ready_check("works", agent.unready, once_elected=True)
        election = LeaderElection(management, LEASE, settings.namespace, leader_identity(here.environ))
        await serve_manager(
            manager,
            metrics,
            settings.health,
            lambda port: here.info(f"started: work agent of {cluster} on {spoke.server}; health on port {port}"),
            election=election if settings.elect else None,
        )


async def _until_moved(settings: Settings) -> None:
    """Ends the agent when its cluster has moved to another hub: its restart uses that one."""
    assert settings.hub_file is not None, "there is a hub"
    found = await until_moved(settings.hub_file, settings.endpoints, settings.options.hub_url)
    raise click.ClickException(f"the hub is now {found}; starting anew")
