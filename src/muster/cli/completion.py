"""The completion scripts that `muster completion` and `clusteradm completion` print."""

from __future__ import annotations

import click

from muster.cli.console import echo

SHELLS = ("bash", "zsh", "fish")


def print_script(shell: str, name: str) -> None:
    """For the root command of the current context, under the name by which it was called."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    variable = f"_{name}_COMPLETE".replace("-", "_").replace(" ", "_").upper()
    echo(kind(root, {}, name, variable).source())
