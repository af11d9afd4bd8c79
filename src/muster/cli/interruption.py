"""Ctrl-C: an interrupted command exits with 130, as shells expect, and reports what it leaves behind.

A command sets that message beforehand (`leaves_behind`), and it is computed only when needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, Final

import click

from muster.cli.console import echo

EXIT_CODE: Final = 130
"""128 and the number of SIGINT."""
_LEFT: Final = "muster.cli.interruption"


class Interrupted(click.ClickException):
    """The message has what is left; an empty one is not printed."""

    exit_code = EXIT_CODE

    def show(self, file: IO[Any] | None = None) -> None:
        if self.message:
            echo(f"interrupted: {self.message}", err=True)


def leaves_behind(info: Callable[[], str]) -> None:
    """Set the message for an interruption of this context's command from now on."""
    click.get_current_context().meta[_LEFT] = info


def interrupted(context: click.Context) -> Interrupted:
    info = context.meta.get(_LEFT)
    return Interrupted(info() if info is not None else "nothing was changed")
