"""`clusteradm delete token`: no token that was handed out lets a cluster in any more."""

from __future__ import annotations

import click

from muster.cli.connection import Session, administer, connected


@click.command("token")
@connected
def command() -> None:
    """Delete the bootstrap token and the account whose tokens clusters join with."""
    administer(_delete)


async def _delete(session: Session) -> None:
    from muster.administration.hub import tokens

    removed = await tokens.revoke(session.client)
    for place in removed:
        session.progress.say(f"{place} is deleted")
    if not removed:
        session.progress.say("token doesn't exist")
    else:
        session.progress.say("Clusters cannot join any more; run init to let them in again.")
