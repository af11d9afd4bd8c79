"""`muster policy`: runs the policy controller of a managed cluster, which evaluates and enforces policies.

It is the agent of the addon `config-policy-controller`, with the flags, variables and files of upstream's program of that name, and
can be called by that name too: `config-policy-controller controller|trigger-uninstall`. Renewed credentials are reloaded. `dryrun`
and `trigger-uninstall` are subcommands.
"""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from muster.cli.component import host_port
from muster.cli.examples import examples
from muster.cli.hub_address import find_hub, until_moved
from muster.cli.lazy import Entry, LazyGroup
from muster.cli.process import (
    PROCESS,
    FoundCluster,
    ProcessEnv,
    cluster_problem,
    explained,
    find_cluster,
    run_until_stopped,
)
from muster.cli.values import FilePath, Names

if TYPE_CHECKING:
    from muster.machinery.metrics import Metrics
    from muster.policy.manager import PolicyOptions
    from muster.runtime.client import KubeClient
    from muster.runtime.process import SecureServing

WATCH_NAMESPACE: Final = "WATCH_NAMESPACE"
OPERATOR_NAME: Final = "OPERATOR_NAME"
METRICS_CERTIFICATE: Final = "/var/run/metrics-cert"
_UNUSED: Final = "Accepted for compatibility and not used: "

_UNINSTALL: Final = Entry("muster.cli.policy_uninstall", "Remove the policy controller's finalizers before it is uninstalled.")
_COMMANDS: Final = {
    "dryrun": Entry("muster.cli.policy_dryrun", "Evaluate a policy once, without a controller."),
    "trigger-uninstall": _UNINSTALL,
}


def _switch(name: str, help: str, *, default: bool) -> Any:
    """A boolean option with the syntax of Go's flags: `--name`, `--name=true` or `--name=false`."""
    return click.option(name, type=bool, is_flag=False, flag_value="true", default=default, show_default=True, help=help)


_OPTIONS: Final = (
    click.option("--cluster-name", default="acm-managed-cluster", show_default=True, help="Name of this cluster on the hub."),
    click.option(
        "--kubeconfig",
        type=FilePath(dir_okay=False),
        help="Path to the kubeconfig file of the cluster that has the policies.  [default: in-cluster, or kubectl's]",
    ),
    click.option("--context", default="", help="Name of the kubeconfig context to use.  [default: the current one]"),
    click.option(
        "--target-kubeconfig-path",
        type=FilePath(dir_okay=False),
        help="Path to the kubeconfig file of the cluster that policies are evaluated against, if it is another one (hosted mode).",
    ),
    click.option(
        "--standalone-hub-templates-kubeconfig-path",
        "hub_templates_kubeconfig",
        default="",
        metavar="FILE",
        help="Path to the kubeconfig file used to resolve hub templates.  [default: policies with hub templates are not evaluated]",
    ),
    click.option(
        "--hub-kubeconfig-path",
        default="/var/run/klusterlet/kubeconfig",
        hidden=True,
        help=_UNUSED + "Leases are renewed on the controller's own cluster.",
    ),
    _switch("--enable-lease", "Renew the Leases of the policy add-ons as a health signal of the controller.", default=False),
    _switch("--leader-elect", "Use leader election, so that only one of several replicas is active.", default=True),
    _switch("--enable-operator-policy", "Evaluate OperatorPolicies as well as ConfigurationPolicies.", default=False),
    click.option(
        "--operator-policy-default-namespace",
        default="",
        help="Default namespace of operators, if neither policy nor package specifies one.",
    ),
    click.option(
        "--operator-policy-status-history-length",
        type=click.IntRange(0, 65535),
        default=10,
        show_default=True,
        help="Number of messages kept in the status of an OperatorPolicy.",
    ),
    _switch(
        "--enable-ocm-policy-namespace", "Evaluate policies in the namespace open-cluster-management-policies too.", default=True
    ),
    click.option(
        "--evaluation-backoff",
        type=click.IntRange(0),
        default=5,
        show_default=True,
        help="Minimum number of seconds between two evaluations of a policy.",
    ),
    click.option(
        "--evaluation-concurrency",
        type=click.IntRange(1, 65535),
        default=2,
        show_default=True,
        help="Maximum number of ConfigurationPolicies evaluated at the same time.",
    ),
    click.option(
        "--default-terminating-namespace-inclusion",
        "terminating",
        type=click.Choice(["IfMatch", "Drop"]),
        default="IfMatch",
        show_default=True,
        help="Treatment of terminating namespaces by namespace selectors that do not specify one.",
    ),
    click.option(
        "--template-function-denylist",
        "denylist",
        type=Names(),
        multiple=True,
        help="Template functions that policies may not call, separated by commas.",
    ),
    _switch("--enable-metrics", "Record metrics of the compliance, evaluations and errors of policies.", default=True),
    click.option(
        "--metrics-bind-address",
        default="localhost:8383",
        show_default=True,
        metavar="HOST:PORT",
        help="Address to serve metrics on; 0 disables them.",
    ),
    _switch(
        "--secure-metrics",
        f"Serve metrics over TLS with the certificate in {METRICS_CERTIFICATE}, to users that RBAC allows to get /metrics.",
        default=False,
    ),
    click.option("--tls-min-version", default="", help="Minimum TLS version of secure metrics: VersionTLS12 or VersionTLS13."),
    click.option("--tls-cipher-suites", default="", help="Cipher suites of secure metrics, separated by commas."),
    click.option(
        "--health-probe-bind-address",
        default=":8081",
        show_default=True,
        metavar="HOST:PORT",
        help="Address to serve health checks on.",
    ),
    click.option(
        "--client-max-qps", type=float, hidden=True, help=_UNUSED + "--evaluation-concurrency limits concurrent requests."
    ),
    click.option("--client-burst", type=int, hidden=True, help=_UNUSED + "see --client-max-qps."),
    click.option("--decryption-concurrency", type=int, hidden=True, help=_UNUSED + "decryption needs no concurrency limit."),
    click.option("--log-level", default="info", help="Minimum severity of logged messages: error, info, debug, or a number."),
    click.option("--log-encoder", hidden=True, help=_UNUSED + "log lines are in logfmt."),
    click.option("-v", "--v", "verbosity", type=int, default=0, help="Log verbosity; 1 and above enables debug logging."),
)


def _with_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(
    "policy",
    cls=LazyGroup,
    entries=_COMMANDS,
    invoke_without_command=True,
    short_help="Run a managed cluster's policy controller.",
    epilog=examples(
        "muster policy --kubeconfig cluster1.kubeconfig --cluster-name cluster1",
        "muster policy --kubeconfig cluster1.kubeconfig --enable-operator-policy",
    ),
)
@_with_options
def command(**options: Any) -> None:
    """Run the policy controller, which evaluates and enforces ConfigurationPolicies and OperatorPolicies.

    The environment variable WATCH_NAMESPACE limits it to the policies of one namespace; if it is empty, all are evaluated.
    """
    if click.get_current_context().invoked_subcommand is None:
        from muster.machinery import logs

        logs.set_level(_level(options))
        run_until_stopped(serve(settings(options)))


@click.group(
    "config-policy-controller",
    cls=LazyGroup,
    entries={"controller": Entry(__name__, "Run a managed cluster's policy controller."), "trigger-uninstall": _UNINSTALL},
)
def config_policy_controller() -> None:
    """Run the policy controller with upstream's commands; same as `muster policy`."""


def _level(given: dict[str, Any]) -> int:
    from muster.machinery import logs

    levels = {"error": logs.ERROR, "warn": logs.WARNING, "info": logs.INFO, "debug": logs.DEBUG}
    text = str(given["log_level"]).lower()
    named = levels.get(text)
    if named is None:
        if not text.lstrip("-").isdecimal():
            raise click.BadParameter(f"{text!r} is neither a number nor one of {', '.join(levels)}", param_hint="--log-level")
        named = logs.DEBUG if int(text) > 0 else logs.INFO
    return logs.DEBUG if given["verbosity"] > 0 else named


@dataclass(frozen=True)
class Settings:
    cluster: FoundCluster
    target: FoundCluster | None
    hub: Path | None
    """The kubeconfig for hub templates."""
    options: PolicyOptions
    namespace: str
    """The namespace of the controller."""
    elect: bool
    health: tuple[str, int]
    metrics: tuple[str, int] | None
    secure: bool
    certificate: Path
    restrict: TlsRestrictions


@dataclass(frozen=True)
class TlsRestrictions:
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    suites: tuple[str, ...] = ()

    def apply(self, context: ssl.SSLContext) -> None:
        context.minimum_version = self.minimum
        if self.suites:
            context.set_ciphers(":".join(self.suites))


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    """Raises click's errors for invalid flags."""
    from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
    from muster.machinery.objects import ObjectKey
    from muster.policy.configuration.controller import ConfigurationPolicyOptions
    from muster.policy.manager import PolicyOptions
    from muster.policy.operators import OperatorPolicyOptions

    cluster = find_cluster(given["kubeconfig"], given["context"], here)
    target = find_cluster(given["target_kubeconfig_path"], "", here) if given["target_kubeconfig_path"] else None
    namespaces = _namespaces(given, here)
    denylist = frozenset(name for names in given["denylist"] for name in names)
    # Outside of a cluster no client waits for a Lease, unless a namespace is given for it.
    lives_in = (cluster.config.namespace if cluster.in_pod else "") or here.environ.get("POD_NAMESPACE", "")
    operator = here.environ.get(OPERATOR_NAME, "")
    operators = OperatorPolicyOptions(
        namespaces=namespaces,
        default_namespace=given["operator_policy_default_namespace"],
        denylist=denylist,
        history_length=given["operator_policy_status_history_length"],
    )
    options = PolicyOptions(
        given["cluster_name"],
        ConfigurationPolicyOptions(
            namespaces,
            given["evaluation_backoff"],
            given["evaluation_concurrency"],
            denylist,
            given["terminating"] == "Drop",
        ),
        operators if given["enable_operator_policy"] else None,
        deployment=ObjectKey(lives_in, operator) if cluster.in_pod and lives_in and operator else None,
        lease_namespace=lives_in if given["enable_lease"] else "",
        metrics=given["enable_metrics"],
    )
    return Settings(
        cluster,
        target,
        here.path(given["hub_templates_kubeconfig"]) if given["hub_templates_kubeconfig"] else None,
        options,
        lives_in or DEFAULT_NAMESPACE,
        given["leader_elect"],
        _address(given, "health_probe_bind_address", here),
        None if given["metrics_bind_address"] == "0" else _address(given, "metrics_bind_address", here),
        given["secure_metrics"],
        here.path(METRICS_CERTIFICATE),
        _restrictions(given),
    )


def _namespaces(given: dict[str, Any], here: ProcessEnv) -> tuple[str, ...]:
    from muster.policy.names import POLICIES_NAMESPACE

    own = here.environ.get(WATCH_NAMESPACE)
    if own is None:
        raise click.UsageError(f"the variable {WATCH_NAMESPACE} must name the namespace of the policies; empty: all namespaces")
    if "," in own:
        raise click.UsageError(f"{WATCH_NAMESPACE}={own}: only one namespace can be named; empty: all namespaces")
    shared = given["enable_ocm_policy_namespace"] and not given["target_kubeconfig_path"]
    return (own, POLICIES_NAMESPACE) if own and shared and own != POLICIES_NAMESPACE else (own,)


def _address(given: dict[str, Any], name: str, here: ProcessEnv) -> tuple[str, int]:
    host, port = host_port(given[name], f"--{name.replace('_', '-')}")
    return here.bind(host), port


def _restrictions(given: dict[str, Any]) -> TlsRestrictions:
    from muster.transport.server.config import cipher_suites, tls_version

    minimum, suites = given["tls_min_version"], given["tls_cipher_suites"]
    try:
        return TlsRestrictions(tls_version(minimum) if minimum else ssl.TLSVersion.TLSv1_2, cipher_suites(suites) if suites else ())
    except ValueError as error:
        raise click.UsageError(f"--tls-min-version, --tls-cipher-suites: {error}") from None


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    ports = "--health-probe-bind-address or --metrics-bind-address"
    with explained(lambda error: cluster_problem(error, "the managed cluster", ports)):
        await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.machinery.metrics import Metrics
    from muster.policy.manager import LEADER_LEASE, PolicyManager
    from muster.policy.names import CONFIG_POLICY_ADDON
    from muster.runtime.controller import LeaderElection, RunnableFunc, leader_identity
    from muster.runtime.process import MetricsServer
    from muster.runtime.process import serve as serve_manager

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client = settings.cluster.connect_in(stack, CONFIG_POLICY_ADDON, metrics)
        target = None if settings.target is None else settings.target.connect_in(stack, CONFIG_POLICY_ADDON, metrics)
        hub = None if settings.hub is None else _connect_hub(settings.hub, stack, metrics)
        manager = PolicyManager(client, settings.options, target=target, hub=hub, metrics=metrics)
        if settings.metrics is not None:
            figures = MetricsServer(metrics, settings.metrics, _secured(settings, client) if settings.secure else None)
            await figures.start()
            stack.push_async_callback(figures.stop)
            manager.add("the metrics' certificate", figures, needs_leader_election=False)
        if settings.hub is not None:
            manager.add("the hub's address", RunnableFunc(partial(_until_moved, settings.hub)), needs_leader_election=False)
        about = client.server if target is None else target.server
        await serve_manager(
            manager,
            None,
            settings.health,
            lambda port: here.info(f"started: policies for {settings.options.cluster_name} on {about}; health on port {port}"),
            election=LeaderElection(client, LEADER_LEASE, settings.namespace, leader_identity(here.environ))
            if settings.elect
            else None,
        )


def _connect_hub(file: Path, stack: AsyncExitStack, metrics: Metrics) -> KubeClient:
    from muster.policy.names import STANDALONE_ADDON
    from muster.runtime.client import HttpClient, KubeconfigError, ReloadingClient

    try:
        hub = ReloadingClient(file, lambda config: HttpClient(config, agent=STANDALONE_ADDON, metrics=metrics))
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; check --standalone-hub-templates-kubeconfig-path") from None
    stack.push_async_callback(hub.close)
    return hub


def _secured(settings: Settings, client: KubeClient) -> SecureServing:
    from muster.runtime.auth import AccessReviewer, TokenReviewer
    from muster.runtime.process import SecureServing

    return SecureServing(settings.certificate, TokenReviewer(client), AccessReviewer(client), settings.restrict.apply)


async def _until_moved(file: Path) -> None:
    """Ends the controller when its cluster has moved to another hub: its restart uses that one."""
    from muster.registration.drivers.kubeconfigs import KUBECONFIGS

    found = await until_moved(file, KUBECONFIGS, find_hub(file, KUBECONFIGS).url)
    raise click.ClickException(f"the hub is now {found}; starting anew")
