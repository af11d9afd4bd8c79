"""`clusteradm unjoin`: removes a managed cluster from its hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from muster.cli.connection import Globals, Session, administer, connected, write_file
from muster.cli.console import echo
from muster.cli.examples import examples

if TYPE_CHECKING:
    from muster.administration.members.unjoin import Unjoined


@click.command(
    "unjoin",
    epilog=examples(
        "clusteradm unjoin --cluster-name cluster1",
        "clusteradm unjoin --cluster-name cluster1 --hub-kubeconfig hub.kubeconfig --dry-run",
    ),
)
@click.option("--cluster-name", "cluster", default="", help="Name of this cluster on the hub.")
@click.option(
    "--purge-operator",
    type=bool,
    default=True,
    show_default=True,
    help="Remove the operator too, together with the last Klusterlet.",
)
@click.option("--force", is_flag=True, help="Unjoin even if resources that the hub applied are left behind.")
@click.option(
    "--hub-kubeconfig",
    type=click.Path(dir_okay=False),
    help="Path to an administrator's kubeconfig file of the hub, to clean up there too.",
)
@click.option("--hub-context", default="", help="Context of the hub kubeconfig.  [default: the current one]")
@click.option(
    "--output-file", type=click.Path(dir_okay=False), help="File to which all changed and deleted objects are also written."
)
@connected
def command(**given: Any) -> None:
    """Remove this cluster from its hub: notify the hub, and remove the agents and the operator from this cluster."""
    result = administer(lambda session: _unjoin(session, given))
    _report(result)


async def _unjoin(session: Session, given: dict[str, Any]) -> Unjoined:
    from muster.administration.members.unjoin import UnjoinOptions, unjoin
    from muster.aws.process_env import found
    from muster.cli.process import find_cluster

    administrator = given["hub_kubeconfig"] or given["hub_context"]
    kubeconfig = given["hub_kubeconfig"] or session.options.kubeconfig
    hub = find_cluster(kubeconfig, given["hub_context"]).config if administrator else None
    options = UnjoinOptions(given["cluster"], given["purge_operator"], given["force"], hub, session.timeout, found())
    result = await unjoin(session.client, options, session.progress)
    if given["output_file"]:
        write_file(given["output_file"], "".join(f"{write}\n" for write in session.journal.writes), "--output-file")
    return result


def _report(result: Unjoined) -> None:
    if not result.klusterlets and not result.purged:
        echo(f"Nothing here belongs to cluster {result.cluster}; nothing was changed.")
    elif not Globals.current().dry_run:
        echo(f"Cluster {result.cluster} has left its hub.")
    for left in result.left:
        echo(f"left: {left}")
