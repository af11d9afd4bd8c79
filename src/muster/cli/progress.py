"""Progress output, on a terminal and elsewhere.

Completed steps are printed on standard output, or on standard error if standard output is for programs. Waits are shown on standard
error: on a terminal as one line with the reason and the elapsed time, cut to the terminal's width; elsewhere as a line whenever the
reason changes. Colours are used on terminals only, and not with NO_COLOR.
"""

from __future__ import annotations

import shutil
import sys
import time

from muster.cli.console import echo, echo_part, echo_warning, fit, is_coloured
from muster.machinery.printable import printable

_CLEAR = "\r\x1b[2K"
_YELLOW, _RESET = "\x1b[33m", "\x1b[0m"
_WAITING = "waiting:"


class ConsoleProgress:
    def __init__(self, *, machine: bool = False) -> None:
        """`machine`: standard output is for the result only."""
        self._machine = machine
        self._live = sys.stderr.isatty()
        self._shown = ""
        self._since = 0.0
        self.awaited = ""
        """The present or last wait."""

    def info(self, text: str) -> None:
        self._clear()
        echo(text, err=self._machine)

    def note(self, text: str) -> None:
        self._clear()
        echo(text, err=True)

    def warn(self, text: str) -> None:
        self._clear()
        echo_warning(text)

    def waiting(self, what: str, why: str) -> None:
        if what != self.awaited or not self._shown:
            self.awaited, self._since = what, time.monotonic()
        text = printable(" ".join(f"waiting: {what}: {why}".split()))
        if not self._live:
            if text != self._shown:
                echo(text, err=True)
            self._shown = text
            return
        elapsed = f" ({duration(time.monotonic() - self._since)})"
        line = fit(text, shutil.get_terminal_size().columns - 1 - len(elapsed)) + elapsed
        if line != self._shown:
            colour = is_coloured(err=True) and line.startswith(_WAITING)
            echo_part(_CLEAR + (_YELLOW if colour else ""), _WAITING)
            echo_part(_RESET if colour else "", line.removeprefix(_WAITING))
        self._shown = line

    def done(self) -> None:
        """The wait is over."""
        self._clear()

    def _clear(self) -> None:
        if self._live and self._shown:
            echo_part(_CLEAR, "")
        self._shown = ""


def duration(seconds: float) -> str:
    """In Kubernetes' notation of ages: 5s, 1m30s, 2h5m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60}m"
