"""`clusteradm completion`: prints a shell script that completes our commands and options."""

from __future__ import annotations

import click

from muster.cli.completion import SHELLS, print_script
from muster.cli.connection import program
from muster.cli.examples import examples


@click.command(
    "completion",
    epilog=examples(
        "source <(clusteradm completion bash)",
        "clusteradm completion fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that completes commands, options and names of the hub's objects in SHELL."""
    print_script(shell, program())
