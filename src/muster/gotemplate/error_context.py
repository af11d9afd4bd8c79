"""The position of compiled code in its template, for error messages.

Go's executor records each node it visits and reports the last one. The compiler visits nodes in the same order, so for every call
that can fail it knows that node, and gives the call a line number that represents it. Only for `and` and `or` the position is known
at run time only: how many arguments were visited depends on their values, which the failed frame still has; `LastVisited`
determines the node from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.gotemplate.nodes import Node


@dataclass(frozen=True, slots=True)
class LastVisited:
    """The last visited node of an `and` or `or`: that of the first argument which ended it, else of the last one."""

    is_or: bool
    arms: tuple[tuple[str, Node | LastVisited], ...]
    """For each argument but the last: the local with its value, and the node visited last in it."""
    otherwise: Node | LastVisited


def resolve(node: Node | LastVisited, frame_locals: Mapping[str, Any]) -> Node:
    while isinstance(node, LastVisited):
        choice = node
        node = choice.otherwise
        for local, visited in choice.arms:
            if bool(frame_locals.get(local)) == choice.is_or:
                node = visited
                break
    return node


@dataclass(frozen=True, slots=True)
class Position:
    template: str
    node: Node | LastVisited
    calling: str = ""
    """The called function, if any: its errors are reported as `error calling <name>`."""


class PositionTable:
    """Assigns line numbers to positions."""

    def __init__(self) -> None:
        self.positions: list[Position | None] = [None, None]
        self._lines: dict[tuple[int, int, str], int] = {}

    def line(self, template: str, template_id: int, node: Node | LastVisited, calling: str = "") -> int:
        key = (template_id, id(node), calling)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = len(self.positions)
            self.positions.append(Position(template, node, calling))
        return line
