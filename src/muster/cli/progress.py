"""Progress on a terminal and off it.

What was done goes to standard output, or to standard error where standard output is for a program to read. Waiting is shown on
standard error: on a terminal as one line that follows the reason, elsewhere as a line whenever the reason changes.
"""

from __future__ import annotations

import shutil
import sys

from muster.cli.console import echo, echo_part, echo_warning
from muster.machinery.printable import printable

_CLEAR = "\r\x1b[2K"


class ConsoleProgress:
    def __init__(self, *, machine: bool = False) -> None:
        """`machine`: standard output belongs to the result."""
        self._machine = machine
        self._live = sys.stderr.isatty()
        self._shown = ""

    def say(self, text: str) -> None:
        self._clear()
        echo(text, err=self._machine)

    def note(self, text: str) -> None:
        self._clear()
        echo(text, err=True)

    def warn(self, text: str) -> None:
        self._clear()
        echo_warning(text)

    def waiting(self, what: str, why: str) -> None:
        text = printable(" ".join(f"waiting: {what}: {why}".split()))
        if text == self._shown:
            return
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            echo_part(_CLEAR, text[:width])
        else:
            echo(text, err=True)
        self._shown = text

    def done(self) -> None:
        """Nothing is waited for any more."""
        self._clear()

    def _clear(self) -> None:
        if self._live and self._shown:
            echo_part(_CLEAR, "")
        self._shown = ""
