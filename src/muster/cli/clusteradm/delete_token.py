"""`clusteradm delete token`: revokes all bootstrap tokens."""

from __future__ import annotations

import click

from muster.cli.connection import Session, administer, connected
from muster.cli.examples import examples


@click.command(
    "token",
    epilog=examples(
        "clusteradm delete token",
        "clusteradm delete token --cluster-name cluster1",
    ),
)
@click.option("--cluster-name", "cluster", default="", help="Name of a cluster; delete only the tokens that are limited to it.")
@connected
def command(cluster: str) -> None:
    """Delete the bootstrap token and the service accounts whose tokens clusters use to join."""
    administer(lambda session: _delete(session, cluster))


async def _delete(session: Session, cluster: str) -> None:
    from muster.administration.hub import tokens

    removed = await tokens.revoke(session.client, cluster)
    for removed_from in removed:
        session.progress.info(f"{removed_from} is deleted")
    if not removed:
        session.progress.info("token doesn't exist")
    elif not cluster:
        session.progress.info("Clusters cannot join any more; run init to allow it again.")
