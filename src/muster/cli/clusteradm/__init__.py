"""The `clusteradm` command: the administrator's tool, with OCM's verbs and flags.

One module for each verb, imported when it is asked for; what the verbs do is in `muster.administration`. A verb parses,
calls and prints.
"""

from __future__ import annotations

import click

from muster.cli.connection import connected
from muster.cli.lazy import Entry, LazyGroup

HERE = "muster.cli.clusteradm"
VERBS = {
    "accept": Entry(f"{HERE}.accept", "Let clusters in that have asked."),
    "init": Entry(f"{HERE}.init", "Make a cluster a hub."),
    "version": Entry(f"{HERE}.version", "Show the versions of this tool and of the hub."),
}
SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group(cls=LazyGroup, entries=VERBS, context_settings=SETTINGS)
@click.version_option(package_name="muster", prog_name="clusteradm")
@connected
def main() -> None:
    """Administer a hub and its managed clusters."""
