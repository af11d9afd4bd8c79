"""The only output to a terminal: `echo`. Printed text may come from a cluster, so control characters are escaped here.

Errors of click and tracebacks of uncaught exceptions are escaped too (`guard`), and so are logs, see `muster.machinery.logs`.
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
    """A text with our own colours: bold, red, green or yellow; other control characters are escaped."""
    parts = _COLOURS.split(text)
    click.echo("".join(part if number % 2 else printable(part) for number, part in enumerate(parts)), color=True)


def is_coloured(*, err: bool = False) -> bool:
    """Whether the output is a terminal with colours, and NO_COLOR is not set."""
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def fit(text: str, width: int) -> str:
    """The text in at most so many columns, cut with an ellipsis."""
    if columns_of(text) <= width:
        return text
    taken = 0
    for number, character in enumerate(text):
        taken += columns_of(character)
        if taken > width - 1:
            return f"{text[:number].rstrip()}…"
    return text


def columns_of(text: str) -> int:
    """The width on a terminal: wide characters have two columns, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def echo_part(control: str, text: str) -> None:
    """A part of a line on standard error, after our own control characters."""
    click.echo(control + printable(text), err=True, nl=False)


def echo_error(text: str) -> None:
    """The error of one item while the others continue, in click's format for fatal errors."""
    echo(f"Error: {_hanging(text)}", err=True)


def echo_warning(text: str) -> None:
    shown = printable(f"warning: {_hanging(text)}")
    click.echo(shown.replace("warning:", click.style("warning:", fg="yellow"), 1) if is_coloured(err=True) else shown, err=True)


def make_printable(error: click.ClickException) -> None:
    """Called before click shows the error."""
    vars(error)["message"] = printable(_hanging(error.message))


def _hanging(text: str) -> str:
    """Indent further lines, so that text from outside does not look like a line of ours."""
    return _BREAK.sub("\n  ", text)


def guard() -> None:
    """Escape tracebacks of uncaught exceptions like all other output."""
    sys.excepthook = _show_trace


def _show_trace(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    echo("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), err=True)
