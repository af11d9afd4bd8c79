"""Commands of `clusteradm` for works: creation, deletion, details for listings, and permission checks in advance."""

from __future__ import annotations

import click

from muster.cli.connection import connected
from muster.cli.lazy import Entry, LazyGroup

CHECKS = {"can-i": Entry(f"{__name__}.can_i", "Check whether a work would be accepted and its executor allowed.")}


@click.group("work", cls=LazyGroup, entries=CHECKS)
@connected
def command() -> None:
    """Check works before creating them."""
