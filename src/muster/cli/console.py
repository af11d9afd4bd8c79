"""The one way to a terminal: `echo`. What a command prints may hold the words of a cluster, so all of it is made printable here.

Errors that click shows and traces of errors that nobody caught go the same way (`guard`), and so do logs, see
`muster.machinery.logs`.
"""

from __future__ import annotations

import re
import sys
import traceback
from types import TracebackType
from typing import Final

import click

from muster.machinery.printable import printable

_BREAK: Final = re.compile(r"\n(?:  )?")
_COLOURS: Final = re.compile(r"(\x1b\[(?:0|1|31|32|33)m)")


def echo(text: str = "", *, err: bool = False) -> None:
    click.echo(printable(text), err=err)


def echo_coloured(text: str) -> None:
    """A text in which some is bold, red, green or yellow; whatever else acts on a terminal is not let through."""
    parts = _COLOURS.split(text)
    click.echo("".join(part if number % 2 else printable(part) for number, part in enumerate(parts)), color=True)


def echo_part(control: str, text: str) -> None:
    """Some of a line on standard error, after control characters of our own."""
    click.echo(control + printable(text), err=True, nl=False)


def echo_error(text: str) -> None:
    """Of one of several things, where the others go on; as click shows what ends a command."""
    echo(f"Error: {_hanging(text)}", err=True)


def echo_warning(text: str) -> None:
    echo(f"warning: {_hanging(text)}", err=True)


def make_printable(error: click.ClickException) -> None:
    """Before click shows it."""
    vars(error)["message"] = printable(_hanging(error.message))


def _hanging(text: str) -> str:
    """Further lines are indented: no text of others begins a line that looks like one of ours."""
    return _BREAK.sub("\n  ", text)


def guard() -> None:
    """Have traces of errors that end the process printed like everything else."""
    sys.excepthook = _show_trace


def _show_trace(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    echo("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), err=True)
