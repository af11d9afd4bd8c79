"""What `clusteradm` does with works: making and deleting them, showing how they fare, asking beforehand whether they may."""

from __future__ import annotations

import click

from muster.cli.connection import connected
from muster.cli.lazy import Entry, LazyGroup

ASKED = {"can-i": Entry(f"{__name__}.asking", "Whether a work would pass.")}


@click.group("work", cls=LazyGroup, entries=ASKED)
@connected
def command() -> None:
    """Ask about works before making them."""
