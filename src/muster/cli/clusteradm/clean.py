"""`clusteradm clean`: make a hub an ordinary cluster again."""

from __future__ import annotations

import click

from muster.cli.connection import Session, administer, connected, write_file


@click.command("clean")
@click.option("--name", default="cluster-manager", show_default=True, help="Of the ClusterManager.")
@click.option("--purge-operator", type=bool, default=True, show_default=True, help="Remove the operator too.")
@click.option("--force", is_flag=True, help="Even while managed clusters are alive.")
@click.option("--output-file", type=click.Path(dir_okay=False), help="Also write what was removed to this file.")
@connected
def command(name: str, purge_operator: bool, force: bool, output_file: str | None) -> None:
    """Clean up the hub: remove what init and the operator made."""
    administer(lambda session: _clean(session, name, purge_operator, force, output_file))


async def _clean(session: Session, name: str, purge_operator: bool, force: bool, output_file: str | None) -> None:
    from muster.administration.hub.clean import CleanOptions, clean

    result = await clean(session.client, CleanOptions(name, purge_operator, force, session.timeout), session.progress)
    for one in result.kept:
        session.progress.say(f"left: {one}")
    if output_file:
        write_file(output_file, "".join(f"{one}\n" for one in result.removed), "--output-file")
    if session.dry_run:
        return
    for one in result.removed:
        session.progress.say(f"removed: {one}")
    if result.removed:
        session.progress.say("The multicluster hub control plane has been clean up successfully!")
    else:
        session.progress.warn("hub has not been initialized: there is nothing to clean up")
