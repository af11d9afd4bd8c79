"""The output of a dry run: diffs per related object, in colour unless disabled, and the messages."""

from __future__ import annotations

from typing import Final

from muster.api.policy.v1 import ConfigurationPolicyStatus

_GREEN: Final = "\033[32m"
_RED: Final = "\033[31m"
_YELLOW: Final = "\033[33m"
_BOLD: Final = "\033[1m"
_RESET: Final = "\033[0m"


class Palette:
    """Colours, or none."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def _in(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colours else text

    def good(self, text: str) -> str:
        return self._in(text, _GREEN)

    def bad(self, text: str) -> str:
        return self._in(text, _RED)

    def doubtful(self, text: str) -> str:
        return self._in(text, _YELLOW)

    def bold(self, text: str) -> str:
        return self._in(text, _BOLD)


def diff_lines(status: ConfigurationPolicyStatus, palette: Palette) -> list[str]:
    lines = ["# Diffs:"]
    for related in status.related_objects:
        resource = related.object
        name = "/".join(part for part in (resource.metadata.namespace, resource.metadata.name) if part)
        lines.append(f"{resource.api_version} {resource.kind} {name}:")
        diff = related.properties.diff if related.properties is not None else ""
        lines.append("\n".join(_coloured(line, palette) for line in diff.split("\n")).removesuffix("\n"))
    return lines


def _coloured(line: str, palette: Palette) -> str:
    if line.startswith("-") and not line.startswith("---"):
        return palette.bad(line)
    return palette.good(line) if line.startswith("+") and not line.startswith("+++") else line


def message_lines(messages: tuple[str, ...]) -> list[str]:
    return ["# Compliance messages:", *messages]
