"""`clusteradm clean`: removes the hub from a cluster."""

from __future__ import annotations

import click

from muster.cli.connection import Session, administer, connected, write_file
from muster.cli.examples import examples


@click.command(
    "clean",
    epilog=examples(
        "clusteradm clean --dry-run",
        "clusteradm clean --purge-operator=false",
    ),
)
@click.option("--name", default="cluster-manager", show_default=True, help="Name of the ClusterManager.")
@click.option("--purge-operator", type=bool, default=True, show_default=True, help="Remove the operator and its CRDs too.")
@click.option("--force", is_flag=True, help="Clean up even while managed clusters are still connected.")
@click.option("--output-file", type=click.Path(dir_okay=False), help="File to which all removed objects are also written.")
@connected
def command(name: str, purge_operator: bool, force: bool, output_file: str | None) -> None:
    """Clean up the hub: remove all that clusteradm init and the operator created."""
    administer(lambda session: _clean(session, name, purge_operator, force, output_file))


async def _clean(session: Session, name: str, purge_operator: bool, force: bool, output_file: str | None) -> None:
    from muster.administration.hub.clean import CleanOptions, clean

    result = await clean(session.client, CleanOptions(name, purge_operator, force, session.timeout), session.progress)
    for one in result.kept:
        session.progress.info(f"left: {one}")
    if output_file:
        write_file(output_file, "".join(f"{one}\n" for one in result.removed), "--output-file")
    if session.dry_run:
        return
    for one in result.removed:
        session.progress.info(f"removed: {one}")
    if result.removed:
        session.progress.info("The multicluster hub control plane has been clean up successfully!")
    else:
        session.progress.warn("hub has not been initialized: there is nothing to clean up")
