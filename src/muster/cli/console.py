"""The one way to a terminal: `echo`. What a command prints may hold the words of a cluster, so all of it is made printable here.

Errors that click shows and traces of errors that nobody caught go the same way (`guard`), and so do logs, see
`muster.machinery.logs`.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from types import TracebackType
from typing import Final
from unicodedata import combining, east_asian_width

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


def is_coloured(*, err: bool = False) -> bool:
    """Whether the reader sees colours: a terminal that knows them, unless NO_COLOR asks for none."""
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def fit(text: str, width: int) -> str:
    """Of at most so many columns; what is cut off shows as an ellipsis."""
    if columns_of(text) <= width:
        return text
    taken = 0
    for number, character in enumerate(text):
        taken += columns_of(character)
        if taken > width - 1:
            return f"{text[:number].rstrip()}…"
    return text


def columns_of(text: str) -> int:
    """On a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def echo_part(control: str, text: str) -> None:
    """Some of a line on standard error, after control characters of our own."""
    click.echo(control + printable(text), err=True, nl=False)


def echo_error(text: str) -> None:
    """Of one of several things, where the others go on; as click shows what ends a command."""
    echo(f"Error: {_hanging(text)}", err=True)


def echo_warning(text: str) -> None:
    shown = printable(f"warning: {_hanging(text)}")
    click.echo(shown.replace("warning:", click.style("warning:", fg="yellow"), 1) if is_coloured(err=True) else shown, err=True)


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
