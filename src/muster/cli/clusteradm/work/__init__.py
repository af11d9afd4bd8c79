"""What `clusteradm` does with works: making and deleting them, showing how they fare, asking beforehand whether they may."""

from __future__ import annotations

import click

from muster.cli.connection import connected
from muster.cli.lazy import Entry, LazyGroup

ASKED = {"can-i": Entry(f"{__name__}.asking", "Check whether a work would be accepted and its executor allowed.")}


@click.group("work", cls=LazyGroup, entries=ASKED)
@connected
def command() -> None:
    """Check works before creating them."""
