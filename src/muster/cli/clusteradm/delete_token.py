"""`clusteradm delete token`: no token that was handed out lets a cluster in any more."""

from __future__ import annotations

import click

from muster.cli.connection import Session, administer, connected


@click.command("token")
@click.option("--cluster-name", "cluster", default="", help="Only those that are good for this cluster alone.")
@connected
def command(cluster: str) -> None:
    """Delete the bootstrap token and the accounts whose tokens clusters join with."""
    administer(lambda session: _delete(session, cluster))


async def _delete(session: Session, cluster: str) -> None:
    from muster.administration.hub import tokens

    removed = await tokens.revoke(session.client, cluster)
    for place in removed:
        session.progress.say(f"{place} is deleted")
    if not removed:
        session.progress.say("token doesn't exist")
    elif not cluster:
        session.progress.say("Clusters cannot join any more; run init to let them in again.")
