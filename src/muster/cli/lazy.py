"""A group of commands that imports a command only when it is called, so that `--help` is fast. Its errors are escaped.

The list of commands is a table: the command's name, its module, and its short help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

import click

from muster.cli.console import guard, make_printable
from muster.cli.interruption import interrupted


@dataclass(frozen=True)
class Entry:
    """A command: `attribute` of `module`."""

    module: str
    help: str
    attribute: str = "command"

    def load(self) -> click.Command:
        return cast(click.Command, getattr(import_module(self.module), self.attribute))


class SuggestingGroup(click.Group):
    """Suggests the command that was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            close = get_close_matches(name.lower(), self.list_commands(ctx))
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """`others` are aliases of commands, which are not listed."""

    def __init__(
        self, *arguments: Any, entries: Mapping[str, Entry], others: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._entries = entries
        self._others = others or {}

    def main(self, *arguments: Any, **options: Any) -> Any:
        guard()
        return super().main(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.ClickException as error:
            make_printable(error)
            raise
        except KeyboardInterrupt:
            end = interrupted(context)
            make_printable(end)
            raise end from None

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted({*super().list_commands(context), *self._entries})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        name = self._others.get(name, name)
        return self._entries[name].load() if name in self._entries else super().get_command(context, name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """As in click, without importing the listed commands."""
        listed = {name: command.get_short_help_str() for name, command in self.commands.items()}
        listed |= {name: entry.help for name, entry in self._entries.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(listed.items()))
