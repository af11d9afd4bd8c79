"""`clusteradm completion`: a script that makes a shell complete our commands and options."""

from __future__ import annotations

import click

from muster.cli.console import echo
from muster.cli.examples import examples


@click.command(
    "completion",
    epilog=examples(
        "source <(clusteradm completion bash)",
        "clusteradm completion fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that completes commands and options in SHELL."""
    from click.shell_completion import get_completion_class

    from muster.cli.connection import program

    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    name = program()
    variable = f"_{name}_COMPLETE".replace("-", "_").replace(" ", "_").upper()
    echo(kind(root, {}, name, variable).source())
