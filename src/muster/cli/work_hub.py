"""`muster work-hub`: runs the hub's side of works: the admission webhooks of works, and their controllers.

By default it first installs its CRDs and permissions, which takes an administrator's permissions. To run it with its own
permissions only, install once with `--install-only` as administrator, then run it as `work-controller-sa` with `--no-install`.
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
    process_options,
    serve_component,
)
from muster.cli.examples import examples
from muster.cli.process import PROCESS, ProcessEnv, explained, run_until_stopped
from muster.cli.values import Gates
from muster.work.hub.options import (
    ADDON_NAMESPACE,
    CLEAN_UP_COMPLETED,
    GATES,
    MANIFEST_LIMIT,
    MANIFEST_WORK_REPLICA_SET,
    NIL_EXECUTOR_VALIDATING,
    UNSUPPORTED_GATES,
    ExecutorAuthorization,
    WorkHubOptions,
    authorization,
)

if TYPE_CHECKING:
    from muster.runtime.client import KubeClient
    from muster.work.hub.webhook_server import Webhooks


@click.command(
    "work-hub",
    short_help="Run the hub's work controllers and webhooks.",
    epilog=examples(
        "muster work-hub --kubeconfig hub.kubeconfig",
        "muster work-hub --kubeconfig hub.kubeconfig --feature-gates ManifestWorkReplicaSet=true",
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
@click.option(
    "--executor-authorization",
    type=click.Choice([one.value for one in ExecutorAuthorization]),
    default=ExecutorAuthorization.ACCESS_REVIEW.value,
    show_default=True,
    help="Authorization of works that set an executor: access reviews of the execute-as verb, or the binding of "
    "ManagedServiceAccounts.",
)
@click.option(
    "--manifest-limit",
    "--manifestLimit",
    type=click.IntRange(1),
    default=MANIFEST_LIMIT,
    show_default=True,
    help="Maximum total size of a work's manifests, in bytes.",
)
@click.option(
    "--addon-namespace",
    default=ADDON_NAMESPACE,
    show_default=True,
    help="Namespace of the ManagedServiceAccounts on clusters whose add-on does not specify one.",
)
@process_options
def command(**options: Any) -> None:
    """Run the hub's work controllers and webhooks: validation, ManifestWorkReplicaSets and cleanup of completed works."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    common: CommonFlags
    options: WorkHubOptions


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    common = common_flags(given, here)
    gates = dict(gate for gates in given["gates"] for gate in gates)
    options = WorkHubOptions(
        namespace=common.namespace,
        nil_executor_validating=gates.get(NIL_EXECUTOR_VALIDATING, False),
        replica_sets=gates.get(MANIFEST_WORK_REPLICA_SET, False),
        clean_up_completed=gates.get(CLEAN_UP_COMPLETED, False),
        authorization=authorization(gates, ExecutorAuthorization(given["executor_authorization"])),
        manifest_limit=given["manifest_limit"],
        addon_namespace=given["addon_namespace"],
    )
    return Settings(common, options)


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(component_problem()):
        await serve_component(settings.common, _component(settings.options), here)


def _component(options: WorkHubOptions) -> HubComponent[Webhooks]:
    from muster.runtime.install import ensure_namespace
    from muster.work.hub.install import LOCK, install
    from muster.work.hub.manager import WorkHub
    from muster.work.hub.webhook_server import Webhooks

    async def install_all(client: KubeClient, webhooks: Webhooks | None) -> None:
        await install(client, options, webhooks.endpoint if webhooks else None)

    return HubComponent(
        "work hub",
        "muster-work-hub",
        LOCK,
        manager=lambda client, metrics: WorkHub(client, options, metrics=metrics),
        webhooks=lambda client, serving: Webhooks(client, options, serving),
        install_namespaces=lambda client: ensure_namespace(client, options.namespace),
        install=install_all,
    )
