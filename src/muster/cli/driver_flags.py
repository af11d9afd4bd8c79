"""Flags of registration drivers: those in a table, and `--driver-option` for all other options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli.values import Names
from muster.machinery.oserrors import explain_file_error

if TYPE_CHECKING:
    from muster.registration.drivers.flags import Flag
    from muster.registration.drivers.profile import DriverOptions

F = TypeVar("F", bound=Callable[..., Any])

_ANY = click.option(
    "--driver-option",
    "driver_options",
    multiple=True,
    metavar="NAME.KEY=VALUE",
    help="Option for a registration driver. Repeatable.",
)


def driver_flags(flags: Sequence[Flag]) -> Callable[[F], F]:
    """Add these flags and `--driver-option` to a command."""

    def give(command: F) -> F:
        command = _ANY(command)
        for flag in reversed(flags):
            command = _option(flag)(command)
        return command

    return give


def _option(flag: Flag) -> Callable[[F], F]:
    return click.option(*_spellings(flag), _option_name(flag), type=_type(flag), multiple=True, help=flag.help)


def _type(flag: Flag) -> Any:
    if flag.choices:
        return click.Choice(flag.choices)
    if flag.content:
        return click.Path(dir_okay=False)
    return Names() if flag.commas else str


def _spellings(flag: Flag) -> tuple[str, ...]:
    return flag.spellings or (f"--{flag.option}",)


def _option_name(flag: Flag) -> str:
    return f"{flag.driver}_{flag.option}".replace("-", "_")


def driver_settings(flags: Sequence[Flag], given: dict[str, Any], *more: str) -> dict[str, DriverOptions]:
    """The options by driver; `more` are further settings DRIVER.OPTION=VALUE. Raises ClickException."""
    from muster.registration.drivers import DriverOptionError, driver_options

    settings = [f"{flag.driver}.{flag.option}={value}" for flag in flags for value in _values(flag, given)]
    try:
        return driver_options([*settings, *more, *given["driver_options"]])
    except DriverOptionError as error:
        raise click.ClickException(str(error)) from None


def _values(flag: Flag, given: dict[str, Any]) -> list[str]:
    values = given[_option_name(flag)]
    if flag.content:
        return [content(path, _spellings(flag)[0]).decode(errors="surrogateescape") for path in values]
    return [one for several in values for one in several] if flag.commas else list(values)


def content(path: str | None, flag: str) -> bytes:
    """The content of a flag's file; empty without the flag. Raises ClickException."""
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.ClickException(f"{flag} {path}: {explain_file_error(error)}") from None
