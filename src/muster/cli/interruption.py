"""Ctrl-C: a command that is interrupted ends with 130, as shells expect, and says what it leaves behind.

What that is, the command that runs knows; it says so beforehand (`leaves_behind`), and it is asked only when it comes to that.
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
    """The message says what is left; where it is empty, nothing is said."""

    exit_code = EXIT_CODE

    def show(self, file: IO[Any] | None = None) -> None:
        if self.message:
            echo(f"interrupted: {self.message}", err=True)


def leaves_behind(info: Callable[[], str]) -> None:
    """What to say if the command of this context is interrupted from now on."""
    click.get_current_context().meta[_LEFT] = info


def interrupted(context: click.Context) -> Interrupted:
    info = context.meta.get(_LEFT)
    return Interrupted(info() if info is not None else "nothing was changed")
