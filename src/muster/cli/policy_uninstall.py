"""`muster policy trigger-uninstall`: makes a policy controller remove its finalizers from all policies, and waits for that.

It runs before the addon `config-policy-controller` is removed, as upstream's `config-policy-controller trigger-uninstall` does.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from muster.cli.examples import examples
from muster.cli.process import PROCESS, FoundCluster, ProcessEnv, cluster_problem, explained, find_cluster, run_until_stopped
from muster.cli.values import FilePath

if TYPE_CHECKING:
    from muster.machinery.objects import ObjectKey


@click.command(
    "trigger-uninstall",
    short_help="Remove the policy controller's finalizers before it is uninstalled.",
    epilog=examples("muster policy trigger-uninstall --policy-namespace cluster1"),
)
@click.option(
    "--kubeconfig", type=FilePath(dir_okay=False), help="Path to the kubeconfig file.  [default: in-cluster, or kubectl's]"
)
@click.option("--context", default="", help="Name of the kubeconfig context to use.  [default: the current one]")
@click.option(
    "--deployment-name", default="config-policy-controller", show_default=True, help="Name of the controller's Deployment."
)
@click.option(
    "--deployment-namespace",
    default="open-cluster-management-agent-addon",
    show_default=True,
    help="Namespace of the controller's Deployment.",
)
@click.option("--policy-namespace", required=True, help="Namespace of the policies.")
@click.option("--additional-namespace", default="", help="Another namespace with policies.")
@click.option(
    "--timeout-seconds", type=click.IntRange(30), default=300, show_default=True, help="Maximum number of seconds to wait."
)
@click.option("-v", "--v", "verbosity", type=int, default=0, help="Log verbosity; 1 and above enables debug logging.")
def command(**options: Any) -> None:
    """Mark the controller's Deployment as being uninstalled, and wait until its finalizers are removed from all policies."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbosity"] > 0 else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    cluster: FoundCluster
    deployment: ObjectKey
    namespaces: tuple[str, ...]
    timeout: int


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    """Raises click's errors for invalid flags."""
    from muster.machinery.objects import ObjectKey

    for flag in ("deployment_name", "deployment_namespace", "policy_namespace"):
        if not given[flag]:
            raise click.BadParameter("must not be empty", param_hint=f"--{flag.replace('_', '-')}")
    return Settings(
        find_cluster(given["kubeconfig"], given["context"], here),
        ObjectKey(given["deployment_namespace"], given["deployment_name"]),
        tuple(filter(None, (given["policy_namespace"], given["additional_namespace"]))),
        given["timeout_seconds"],
    )


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(lambda error: cluster_problem(error, "the cluster", "")):
        await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.machinery.metrics import Metrics
    from muster.policy.names import CONFIG_POLICY_ADDON
    from muster.policy.uninstall import trigger_uninstall

    async with AsyncExitStack() as stack:
        client = settings.cluster.connect_in(stack, CONFIG_POLICY_ADDON, Metrics())
        try:
            async with asyncio.timeout(settings.timeout):
                await trigger_uninstall(client, settings.deployment, settings.namespaces)
        except TimeoutError:
            raise click.ClickException(
                f"policies still have finalizers after {settings.timeout} s; is the controller {settings.deployment} running?"
            ) from None
    here.info("no policy has finalizers any more")
