"""Types of option values that click does not have: durations, comma-separated lists (of files), key=value pairs, feature gates.

Click refuses an invalid value with the option's name and the expected syntax.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.machinery.confinement import current

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
_ON = "true"
_UNITS: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


class Duration(click.ParamType[Any]):
    """Seconds, or Go's notation of durations, with days: `90`, `1h30m`, `7d`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        if not _DURATION.fullmatch(text):
            self.fail(f"{text!r} is no duration; write 90s, 1h30m or 7d", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


class Names(click.ParamType[Any]):
    """Comma-separated names."""

    name = "names"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in str(value).split(",") if part.strip())


class Fingerprints(Names):
    """Comma-separated hashes of public keys in kubeadm's notation."""

    name = "sha256:…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        found = tuple(one.lower() for one in super().convert(value, param, ctx))
        for one in found:
            if not _FINGERPRINT.fullmatch(one):
                self.fail(f"{one!r} is not sha256:<64 hexadecimal digits>", param, ctx)
        return found


class FilePath(click.Path):
    """A path that is checked while parsing only in a process of its own: in a pod it is not the machine's."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        return value if current() is not None else super().convert(value, param, ctx)


class Files(Names):
    """Comma-separated names of files; shells complete the first."""

    name = "files"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Pairs(click.ParamType[Any]):
    """`key=value,…`"""

    name = "key=value,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[tuple[str, str], ...]:
        if isinstance(value, tuple):
            return value
        pairs = []
        for part in filter(None, (part.strip() for part in str(value).split(","))):
            key, separator, content = part.partition("=")
            if not separator or not key:
                self.fail(f"{part!r} is not key=value", param, ctx)
            pairs.append((key, content))
        return tuple(pairs)


class Gates(click.ParamType[Any]):
    """`Gate=true|false,…` of the gates in `known`; those in `unsupported` can only be false."""

    name = "gate=true|false,…"

    def __init__(self, known: Iterable[str], unsupported: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._unsupported = frozenset(unsupported)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[tuple[str, bool], ...]:
        if isinstance(value, tuple):
            return value
        gates = []
        for gate, content in Pairs().convert(value, param, ctx):
            if gate not in self._known | self._unsupported:
                self.fail(f"{gate} is no feature gate; there are {', '.join(sorted(self._known))}", param, ctx)
            if content.lower() not in ("true", "false"):
                self.fail(f"{gate}={content}: a gate is true or false", param, ctx)
            if gate in self._unsupported and content.lower() == "true":
                self.fail(f"{gate} is not supported", param, ctx)
            gates.append((gate, content.lower() == "true"))
        return tuple(gates)


def switch(name: str, help: str, *, default: bool | None = False, **more: Any) -> Callable[[F], F]:
    """A boolean option with the syntax of Go's flags: `--name`, `--name=true` or `--name=false`."""
    return click.option(
        name, type=bool, is_flag=False, flag_value=_ON, default=default, show_default=default is not None, help=help, **more
    )


class SwitchCommand(click.Command):
    """A command whose boolean options never take the next word as their value, as click would parse them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        switches = {name for option in self.params if getattr(option, "flag_value", None) == _ON for name in option.opts}
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [f"{arg}={_ON}" if arg in switches else arg for arg in args[:end]] + args[end:])
