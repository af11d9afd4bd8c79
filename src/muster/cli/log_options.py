"""The log options of every long-running command: level and format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from muster.machinery import logs

F = TypeVar("F", bound=Callable[..., Any])
FORMAT_VARIABLE: Final = "MUSTER_LOG_FORMAT"


def _choose(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        logs.set_format(value)


def log_options(command: F) -> F:
    """Add `--verbose`, and `--log-format`, which takes effect when it is parsed."""
    for option in reversed(
        (
            click.option("-v", "--verbose", is_flag=True, help="Enable debug logging on standard error."),
            click.option(
                "--log-format",
                type=click.Choice(logs.FORMATS),
                callback=_choose,
                expose_value=False,
                envvar=FORMAT_VARIABLE,
                show_envvar=True,
                help="Format of log lines: logfmt or JSON.  [default: text]",
            ),
        )
    ):
        command = option(command)
    return command
