"""Which options of which commands a test shows: `@shows("join", "--proxy-url")`.

A claim has to be kept: the test fails unless it has run that command with each of the options (`keep_claims` in conftest). And an
option that no test of this directory claims fails `test_every_option`. What the option does, the test asserts.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from muster.cli.clusteradm import main
from muster.cli.connection import connected

Claim = tuple[str, str]
"""A command's path and the long spelling of one of its options."""
EVERYWHERE = {parameter.name for parameter in connected(click.Command("any")).params}
"""Options of all commands; what they do, `test_every_command` shows of each."""

noted: set[Claim] = set()
"""What has been used since the test began."""


def leaves(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


def _spellings(command: click.Command) -> dict[str, str]:
    own = [one for one in command.params if isinstance(one, click.Option) and one.name not in EVERYWHERE]
    return {spelling: next(long for long in one.opts if long.startswith("--")) for one in own for spelling in one.opts}


SPELLINGS = {path: _spellings(command) for path, command in leaves()}


def used(words: Sequence[str]) -> set[Claim]:
    """The options in a command line that begins with the command."""
    path = next((path for path in SPELLINGS if list(words[: path.count(" ") + 1]) == path.split()), None)
    if path is None:
        return set()
    known = SPELLINGS[path]
    return {(path, known[flag]) for word in words if (flag := word.partition("=")[0]) in known}


def shows(path: str, *options: str) -> pytest.MarkDecorator:
    """Give each option by any of its spellings."""
    return pytest.mark.shows(path, *(SPELLINGS[path][one] for one in options))


def row(line: str, *values: Any, marks: Sequence[pytest.MarkDecorator] = ()) -> Any:
    """A parameter of a test: a command line, and what else the test needs; it claims all options in the line."""
    claims = [shows(path, option) for path, option in sorted(used(line.split()))]
    return pytest.param(line, *values, marks=[*claims, *marks], id=line.replace(" ", "_"))


def claimed(marks: Sequence[Any]) -> set[Claim]:
    return {(mark.args[0], option) for mark in marks if mark.name == "shows" for option in mark.args[1:]}


def all_claims() -> set[Claim]:
    """Of every test in this directory."""
    here = Path(__file__)
    modules = [importlib.import_module(f"{__package__}.{one.stem}") for one in sorted(here.parent.glob("test_*.py"))]
    return {claim for module in modules for claim in _claims_in(module)}


def _claims_in(module: ModuleType) -> Iterator[Claim]:
    for test in vars(module).values():
        marks = getattr(test, "pytestmark", None)
        for mark in marks if isinstance(marks, list) else ():
            yield from claimed([mark])
            if mark.name == "parametrize":
                yield from claimed([one for row in mark.args[1] for one in getattr(row, "marks", ())])
